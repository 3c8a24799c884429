// Operands in memory whose addresses are computed in unusual ways: displacements as large as there
// are, 32-bit addresses that wrap, stores by a mask at rdi. What they make of memory is printed.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

enum { kBytes = 4096 };

static uint64_t sum_of(const uint8_t* memory) {
  uint64_t sum = 0;
  for (int i = 0; i < kBytes; i++) sum = sum * 31 + memory[i];
  return sum;
}

static void show(const char* what, const uint8_t* memory) {
  printf("%s: %016lx\n", what, (unsigned long)sum_of(memory));
}

static void use_large_displacements(uint8_t* memory) {
  uint64_t value = 3;
  __asm__ volatile(
      "mov -0x80000000(%1), %0; add $5, %0; mov %0, 8-0x80000000(%1)\n\t"
      "mov 0x7ffffff8(%2), %0; not %0; mov %0, 0x7ffffff7(%2)\n\t"
      "addl $7, 0x7fffffff(%2); push 0x7ffffff0(%2); pop 16-0x80000000(%1)\n\t"
      "lock incq 24-0x80000000(%1); movups 0x7ffffff4(%2), %%xmm1\n\t"
      "movups %%xmm1, 32-0x80000000(%1); incw 0x7fffffff(%2,%3,2)"
      : "+r"(value)
      : "r"(memory + 0x80000000), "r"(memory + 256 - 0x7fffffff), "r"(100L)
      : "memory", "cc", "xmm1");
  memory[64] += (uint8_t)value;
}

static void use_narrow_addresses(uint8_t* low) {
  const uint64_t base = (uint32_t)((uintptr_t)low - 0x20000), index = 0x20000;
  uint64_t value;
  __asm__ volatile(
      "addr32 mov (%k1,%k2), %0; add $9, %0; addr32 mov %0, 8(%k1,%k2)\n\t"
      "addr32 addl $3, -8(%k3); addr32 movups 16(%k1,%k2), %%xmm1; addr32 movups %%xmm1, (%k3)"
      : "=&r"(value)
      : "r"(base | (uint64_t)0x55 << 32), "r"(index | (uint64_t)0x66 << 32),
        "r"((uintptr_t)low + 1024)
      : "memory", "cc", "xmm1");
  low[200] += (uint8_t)value;
}

static void store_by_mask(uint8_t* memory) {
  static const uint8_t mask[16] = {0x80, 0,    0x80, 0, 0,    0x80, 0x80, 0,
                                   0,    0x80, 0,    0, 0x80, 0,    0,    0x80};
  uint8_t* at = memory + 777;
  __asm__ volatile(
      "movdqu (%1), %%xmm1; movdqu (%2), %%xmm2; maskmovdqu %%xmm2, %%xmm1; add $100, %0\n\t"
      "movq (%1), %%mm1; movq (%2), %%mm2; maskmovq %%mm2, %%mm1; emms"
      : "+D"(at)
      : "r"(memory + 100), "r"(mask)
      : "memory", "xmm1", "xmm2", "mm1", "mm2", "cc");
  memory[0] += (uint8_t)(uintptr_t)(at - memory);
}

int main(void) {
  // Where a 32-bit sum that wraps leads to it, too.
  uint8_t* const low = mmap((void*)0x1f000, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  REQUIRE(low == (uint8_t*)0x1f000);
  static uint8_t memory[kBytes];
  for (int i = 0; i < kBytes; i++) memory[i] = low[i] = (uint8_t)(i * 37);
  for (int i = 0; i < 50; i++) {
    use_large_displacements(memory);
    use_narrow_addresses(low);
    store_by_mask(memory);
  }
  show("large displacements and masks", memory);
  show("32-bit addresses", low);
  return 0;
}
