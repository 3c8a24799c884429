// Reduces numbers by fprem and fprem1, and prints a sum of what they and the status are after each
// step: with exceptions that have been met before and without.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint64_t state = 88172645463325252u, sum;

static uint64_t random_word(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static long double random_number(void) {
  struct {
    uint64_t mantissa;
    uint16_t exponent;
  } parts = {random_word() | (uint64_t)1 << 63, (uint16_t)(0x3fff + random_word() % 200)};
  if (random_word() % 16 == 0) parts.mantissa = 0, parts.exponent = 0;  // no divisor
  if (random_word() % 32 == 0) parts.exponent = 0x7fff;                 // infinite, or no number
  long double number = 0;
  memcpy(&number, &parts, 10);
  return number;
}

static void add(uint64_t word) { sum = (sum ^ word) * 0x9e3779b97f4a7c15u; }

#define REDUCE(name, instruction)                                                        \
  static void name(long double number, long double by) {                                 \
    uint16_t status = 0x400;                                                             \
    for (int i = 0; i < 8 && (status & 0x400) != 0; i++) {                               \
      uint64_t rcx = random_word(), r11 = random_word(), before = rcx, r11_before = r11; \
      uint8_t carry;                                                                     \
      __asm__ volatile("mov %4, %%r11; cmp $1, %2; " instruction                         \
                       "; fnstsw %%ax; setc %3; mov %%r11, %4"                           \
                       : "+t"(number), "=&a"(status), "+c"(rcx), "=&q"(carry), "+r"(r11) \
                       : "u"(by)                                                         \
                       : "r11", "cc");                                                   \
      add(status + (uint64_t)carry + (rcx != before) + (r11 != r11_before));             \
    }                                                                                    \
    uint64_t mantissa;                                                                   \
    memcpy(&mantissa, &number, sizeof(mantissa));                                        \
    add(mantissa);                                                                       \
  }
REDUCE(truncate, "fprem")
REDUCE(to_nearest, "fprem1")

int main(void) {
  for (int i = 0; i < 20000; i++) {
    const uint64_t how = random_word() % 8;
    if (how == 0) __asm__ volatile("fnclex");
    if (how == 1) __asm__ volatile("fld1; fldpi; fdivrp; fstp %%st(0)" ::: "st");  // inexact
    const long double number = random_number(), by = random_number();
    (random_word() % 2 == 0 ? truncate : to_nearest)(number, by);
  }
  printf("%016lx\n", sum);
  return 0;
}
