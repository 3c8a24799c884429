// Little memory at a time, in ever new places; and faults in as many. Prints how many.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

#define ROUNDS 1500
#define FAR_ROUNDS 300
#define BYTES (64 << 10)

static sigjmp_buf back;

static void handler(int signal) { siglongjmp(back, signal); }

int main(void) {
  int mapped = 0;
  volatile int faults = 0;
  REQUIRE(signal(SIGSEGV, handler) != SIG_ERR);
  // Side by side, and far from each other.
  static const unsigned long strides[] = {BYTES, 300ul << 20};
  for (int s = 0; s < 2; s++) {
    char* const base = (char*)0x100000000000 + (unsigned long)s * 0x10000000000;
    const int rounds = s == 0 ? ROUNDS : FAR_ROUNDS;
    for (int i = 0; i < rounds; i++) {
      char* const place = mmap(base + i * strides[s], BYTES, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      REQUIRE(place == base + i * strides[s]);
      memset(place, i, BYTES);
      mapped += place[BYTES - 1] == (char)i;
      REQUIRE(munmap(place, BYTES) == 0);
    }
  }
  for (volatile int i = 0; i < ROUNDS; i++) {
    if (sigsetjmp(back, 1) == 0) {
      *(volatile char*)(0x300000000000 + i * (300ul << 20));
    } else {
      faults++;
    }
  }
  printf("%d mapped, %d faults\n", mapped, faults);
  return 0;
}
