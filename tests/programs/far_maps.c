// Thousands of mappings, each far from the others; what was written to each is found there again.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

#define MAPPINGS 3000
#define STRIDE (512ul << 20)
#define PAGE 4096

int main(void) {
  char* const base = (char*)0x100000000000;
  unsigned sum = 0;
  for (int i = 0; i < MAPPINGS; i++) {
    char* const place = base + i * STRIDE;
    REQUIRE(mmap(place, PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == place);
    *(int*)(place + i % 1000 * 4) = i;
  }
  for (int i = 0; i < MAPPINGS; i++)
    sum = sum * 31 + (unsigned)*(int*)(base + i * STRIDE + i % 1000 * 4);
  printf("%08x\n", sum);
  return 0;
}
