// Locked and unlocked read-modify-write on memory, bit strings in memory, string instructions.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

template <typename T>
uint64_t Exchange(T* cell, T value) {
  const T old = __atomic_fetch_add(cell, value, __ATOMIC_SEQ_CST);  // lock xadd
  T expected = static_cast<T>(old + value);
  uint64_t sum = old;
  sum += __atomic_compare_exchange_n(cell, &expected, static_cast<T>(value ^ 3), false,
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  expected = static_cast<T>(~old);
  sum += __atomic_compare_exchange_n(cell, &expected, value, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
  sum += expected + __atomic_exchange_n(cell, value, __ATOMIC_SEQ_CST);
  __atomic_fetch_or(cell, static_cast<T>(0x41), __ATOMIC_SEQ_CST);
  sum += __atomic_fetch_xor(cell, static_cast<T>(0x11), __ATOMIC_SEQ_CST);
  __atomic_sub_fetch(cell, 1, __ATOMIC_SEQ_CST);
  asm volatile("xadd %0, %1" : "+r"(value), "+m"(*cell) : : "cc", "memory");
  return sum + value;
}

uint64_t BitString(uint8_t* bytes, int64_t bit) {
  uint64_t carries = 0;
  asm volatile(
      "btsq %2, (%1)\n\tadcq $0, %0\n\tbtq %2, (%1)\n\tadcq %0, %0\n\tlock btcl $3, (%1)\n\t"
      "adcq %0, %0\n\tbtrw $5, (%1)\n\tadcq %0, %0"
      : "+r"(carries)
      : "r"(bytes), "r"(bit)
      : "cc", "memory");
  return carries;
}

uint64_t CompareExchange16(uint64_t value) {
  alignas(16) uint64_t cell[2] = {value, 7};
  uint64_t low = value, high = 7;
  uint8_t first, second;
  asm volatile("lock cmpxchg16b %0\n\tsete %3"
               : "+m"(cell), "+a"(low), "+d"(high), "=q"(first)
               : "b"(uint64_t{1}), "c"(uint64_t{2})
               : "cc");
  asm volatile("lock cmpxchg8b %0\n\tsete %3"
               : "+m"(cell), "+a"(low), "+d"(high), "=q"(second)
               : "b"(uint64_t{1}), "c"(uint64_t{2})
               : "cc");
  return cell[0] + cell[1] + low + high + first * 2 + second;
}

uint64_t StringInstructions(char* to, char* from, size_t count) {
  void *d = to, *s = from;
  size_t n = count;
  asm volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
  n = count / 8;
  asm volatile("rep stosq" : "+D"(d), "+c"(n) : "a"(0x0102030405060708) : "memory");
  d = to + count - 8, s = from + count - 8, n = count / 8;
  asm volatile("std\n\trep movsq\n\tcld" : "+D"(d), "+S"(s), "+c"(n) : : "memory", "cc");
  to[count / 2] = 3;
  d = to, s = from, n = count;
  uint64_t flags;
  asm volatile("repe cmpsb\n\tpushfq\n\tpopq %3"
               : "+D"(d), "+S"(s), "+c"(n), "=r"(flags)
               :
               : "memory", "cc");
  uint64_t sum = n + (flags & 0x8d5);
  d = to, n = count;
  asm volatile("repne scasb" : "+D"(d), "+c"(n) : "a"(3) : "memory", "cc");
  sum += n * 3;
  n = 0;
  asm volatile("rep lodsb" : "+S"(s), "+c"(n), "+a"(sum) : : "memory");
  asm volatile("lodsw\n\tstosb\n\tmovsl\n\tscasl\n\tcmpsw"
               : "+D"(d), "+S"(s), "+a"(sum)
               :
               : "memory", "cc");
  return sum;
}

}  // namespace

int main() {
  uint64_t sum = 0;
  alignas(64) uint8_t bytes[512] = {};
  static char from[1024], to[2048];
  for (int i = 0; i < 1024; ++i) from[i] = static_cast<char>(i * 37 | 1);
  for (uint64_t i = 0; i < 150; ++i) {
    uint64_t a = i * 0x123456789abcdef;
    auto b = static_cast<uint32_t>(a);
    auto c = static_cast<uint16_t>(a);
    auto d = static_cast<uint8_t>(a);
    sum += Exchange<uint64_t>(&a, i) + Exchange<uint32_t>(&b, i) + Exchange<uint16_t>(&c, i) +
           Exchange<uint8_t>(&d, i);
    sum += BitString(bytes + 256, static_cast<int64_t>(i * 13) - 1000) + CompareExchange16(i);
    if (i % 10 == 0) sum += StringInstructions(to, from, 16 + i);
  }
  std::printf("%llx\n", static_cast<unsigned long long>(sum));
  return 0;
}
