// What arithmetic instructions compute, and the status flags they leave. Plain C, no library.

#ifndef HINDSIGHT_TRANSLATOR_RUNTIME_ARITHMETIC_H_
#define HINDSIGHT_TRANSLATOR_RUNTIME_ARITHMETIC_H_

#include <stdint.h>

enum {
  kHsCarry = 0x1,
  kHsParity = 0x4,
  kHsAdjust = 0x10,
  kHsZero = 0x40,
  kHsSign = 0x80,
  kHsOverflow = 0x800,
  kHsStatusFlags = 0x8d5,
};

// The lowest `bytes` of a word: 1, 2, 4 or 8.
static inline uint64_t HsLow(uint64_t value, int bytes) {
  return bytes == 8 ? value : value & ((UINT64_C(1) << (8 * bytes)) - 1);
}

static inline uint64_t HsSignBit(int bytes) { return UINT64_C(1) << (8 * bytes - 1); }

// ZF, SF and PF of a result.
static inline uint64_t HsResultFlags(uint64_t result, int bytes) {
  // The table's bit n: whether n has an odd number of ones.
  const uint64_t odd = 0x6996 >> ((result ^ result >> 4) & 0xf) & 1;
  return (result == 0 ? kHsZero : 0) | ((result & HsSignBit(bytes)) != 0 ? kHsSign : 0) |
         (odd == 0 ? kHsParity : 0);
}

// a + b + carry. Operands have no bits above `bytes`. Replaces the status flags in *flags.
static inline uint64_t HsAddWithFlags(uint64_t a, uint64_t b, uint64_t carry, int bytes,
                                      uint64_t* flags) {
  const uint64_t result = HsLow(a + b + carry, bytes);
  const uint64_t carries = (a & b) | ((a | b) & ~result);
  *flags = (*flags & ~(uint64_t)kHsStatusFlags) | HsResultFlags(result, bytes) |
           ((carries & HsSignBit(bytes)) != 0 ? kHsCarry : 0) | ((a ^ b ^ result) & kHsAdjust) |
           ((~(a ^ b) & (a ^ result) & HsSignBit(bytes)) != 0 ? kHsOverflow : 0);
  return result;
}

// a - b - borrow, likewise.
static inline uint64_t HsSubtractWithFlags(uint64_t a, uint64_t b, uint64_t borrow, int bytes,
                                           uint64_t* flags) {
  const uint64_t result = HsLow(a - b - borrow, bytes);
  const uint64_t borrows = (~a & b) | (~(a ^ b) & result);
  *flags = (*flags & ~(uint64_t)kHsStatusFlags) | HsResultFlags(result, bytes) |
           ((borrows & HsSignBit(bytes)) != 0 ? kHsCarry : 0) | ((a ^ b ^ result) & kHsAdjust) |
           (((a ^ b) & (a ^ result) & HsSignBit(bytes)) != 0 ? kHsOverflow : 0);
  return result;
}

// Of and, or, xor. AF, which is undefined, as processors leave it.
static inline uint64_t HsLogicFlags(uint64_t result, int bytes, uint64_t flags) {
  return (flags & ~(uint64_t)kHsStatusFlags) | HsResultFlags(result, bytes);
}

#endif  // HINDSIGHT_TRANSLATOR_RUNTIME_ARITHMETIC_H_
