// Integer arithmetic: all widths, shifts and rotates by every count, bits, division, carries.

#include <cstdint>
#include <cstdio>

namespace {

uint64_t state = 88172645463325252;

uint64_t Random() {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

template <typename T>
uint64_t Arithmetic(T a, T b) {
  volatile T x = a, y = b;
  uint64_t sum = static_cast<uint64_t>(x + y) ^ static_cast<uint64_t>(x - y) ^
                 static_cast<uint64_t>(x * y) ^ static_cast<uint64_t>(x & ~y) ^
                 static_cast<uint64_t>((x | y) ^ 0x5a);
  if (y != 0) sum += static_cast<uint64_t>(x / y) + static_cast<uint64_t>(x % y);
  return sum + (x < y) + 2 * (x == y) + 4 * (x > y);
}

template <typename T>
uint64_t Shifts(T value, unsigned count) {
  volatile T x = value;
  uint64_t result = static_cast<uint64_t>(x << count % (sizeof(T) * 8)) ^
                    static_cast<uint64_t>(x >> count % (sizeof(T) * 8));
  T rotated = value, through_carry = value;
  asm("rol %%cl, %0\n\trcr %%cl, %1" : "+r"(rotated), "+r"(through_carry) : "c"(count) : "cc");
  return result + static_cast<uint64_t>(rotated) + static_cast<uint64_t>(through_carry);
}

uint64_t DoubleShifts(uint64_t a, uint64_t b, unsigned count) {
  asm("shld %%cl, %1, %0\n\tshrd %%cl, %0, %1" : "+r"(a), "+r"(b) : "c"(count) : "cc");
  auto low = static_cast<uint32_t>(a);
  asm("shld $5, %1, %0" : "+r"(low) : "r"(static_cast<uint32_t>(b)) : "cc");
  return a ^ b ^ low;
}

uint64_t Wide(uint64_t a, uint64_t b) {
  unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  product += static_cast<unsigned __int128>(b) << 64 | a;  // adc
  product -= a;                                            // sbb
  const __int128 negative = -static_cast<__int128>(product >> 1);
  return static_cast<uint64_t>(product >> 64) ^ static_cast<uint64_t>(negative >> 32) ^
         static_cast<uint64_t>(product % (b | 1));
}

uint64_t Bits(uint64_t value) {
  uint64_t result = __builtin_bswap64(value) ^ __builtin_bswap32(static_cast<uint32_t>(value));
  if (value != 0) result += __builtin_ctzll(value) + __builtin_clzll(value);
  uint64_t set = value, index = value % 64;
  asm("btsq %1, %0\n\tbtcq $7, %0\n\tbtrq $9, %0" : "+r"(set) : "r"(index) : "cc");
  uint32_t crc = 1;
  asm("cbtw\n\tcwtl\n\tcltq\n\tcwtd\n\tcltd\n\tcqto" : "+a"(value) : : "rdx", "cc");
  return result ^ set ^ value ^ crc;
}

uint64_t HighBytes(uint64_t value) {
  asm("addb %%ah, %%al\n\txchgb %%al, %%ah\n\tmulb %%ah\n\tsarb $3, %%ah\n\tlahf\n\tsahf\n\t"
      "adcb $1, %%al\n\tsetc %%ah\n\tcmc\n\tsbbl %%ecx, %%ecx\n\txorl %%ecx, %%eax"
      : "+a"(value)
      :
      : "rcx", "cc");
  return value;
}

}  // namespace

int main() {
  uint64_t sum = 0;
  for (int i = 0; i < 110; ++i) {
    const uint64_t a = Random(), b = i % 3 == 0 ? Random() >> 40 : Random();
    sum += Arithmetic<uint64_t>(a, b) + Arithmetic<uint32_t>(a, b) + Arithmetic<uint16_t>(a, b) +
           Arithmetic<uint8_t>(a, b) + Arithmetic<int32_t>(a, b | 2) + Arithmetic<int16_t>(a, b) +
           Arithmetic<int8_t>(a, b) + Arithmetic<int64_t>(a, b | 2);
    sum ^= Shifts<uint64_t>(a, i) + Shifts<uint32_t>(a, i) + Shifts<uint16_t>(a, i) +
           Shifts<uint8_t>(a, i) + Shifts<int64_t>(a, i) + Shifts<int32_t>(a, i);
    sum += DoubleShifts(a, b, i) + Wide(a, b) + Bits(a) + HighBytes(a);
  }
  std::printf("%llx\n", static_cast<unsigned long long>(sum));
  return 0;
}
