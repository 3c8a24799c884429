// Instructions for bits, whatever cpuid says: BMI, BMI2, popcnt, lzcnt, movbe, ADX, and CRC32.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>

#define KERNEL __attribute__((target("bmi,bmi2,popcnt,lzcnt,movbe,adx,sse4.2"), noinline))

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

KERNEL static void mix(void) {
  uint64_t sum = 0, crc = 0;
  unsigned char carry = 0;
  for (int i = 0; i < 3000; i++) {
    const uint64_t x = next(), y = next() >> (x & 63);
    sum = sum * 31 + _pdep_u64(x, y) + _pext_u64(y, x) + _bzhi_u64(x, y & 63);
    sum ^= _andn_u64(x, y) + _blsi_u64(x) + _blsr_u64(y) + _blsmsk_u64(x) + _bextr_u64(x, 5, 20);
    sum += __builtin_popcountll(x) * _lzcnt_u64(y) + _tzcnt_u64(y) + _lzcnt_u32((uint32_t)y);
    unsigned long long high = 0, added = 0;
    sum += _mulx_u64(x, y, &high);
    carry = _addcarryx_u64(carry, sum, high, &added);
    sum ^= added;
    uint64_t swapped;
    __asm__("movbe %1, %0" : "=r"(swapped) : "m"(x));
    __asm__("rorx $13, %1, %0" : "=r"(swapped) : "r"(swapped));
    __asm__("sarx %2, %1, %0" : "=r"(swapped) : "r"(swapped), "r"(y));
    crc = _mm_crc32_u64(crc, swapped);
  }
  printf("bits: %016llx %08llx %d\n", (unsigned long long)sum, (unsigned long long)crc, carry);
}

// The flags, too, are a function of registers.
KERNEL static void flags(void) {
  uint64_t all = 0;
  for (int i = 0; i < 1000; i++) {
    const uint64_t x = i % 10 == 0 ? 0 : next();
    uint64_t result, seen;
    __asm__ volatile("blsr %2, %0\n pushfq\n pop %1" : "=r"(result), "=r"(seen) : "r"(x) : "cc");
    all = all * 33 + result + (seen & 0x41);  // carry and zero: the others are undefined
    __asm__ volatile("popcnt %2, %0\n pushfq\n pop %1" : "=r"(result), "=r"(seen) : "r"(x) : "cc");
    all = all * 33 + result + (seen & 0x8d5);
    __asm__ volatile("tzcnt %2, %0\n pushfq\n pop %1" : "=r"(result), "=r"(seen) : "r"(x) : "cc");
    all = all * 33 + result + (seen & 0x41);
  }
  printf("flags: %016llx\n", (unsigned long long)all);
}

int main(void) {
  mix();
  flags();
  return 0;
}
