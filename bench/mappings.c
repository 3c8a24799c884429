// 10,000 mprotect calls among 10,000 mappings, timed: prints a name and seconds.
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "bench/timing.h"

enum { kPage = 4096, kMappings = 10000, kCalls = 10000 };

int main(void) {
  uint8_t* const memory =
      mmap(NULL, (size_t)kMappings * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  // Every other page has rights that its neighbours never have: the number of mappings stays.
  for (int i = 0; i < kMappings; i += 2) {
    if (mprotect(memory + (size_t)i * kPage, kPage, PROT_READ | PROT_WRITE) != 0) return 1;
  }
  uint64_t state = 1;
  const double start = seconds_now();
  for (int i = 0; i < kCalls; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint8_t* const page = memory + (state >> 33) % (kMappings / 2) * 2 * kPage;
    const int rights = state >> 32 & 1 ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (mprotect(page, kPage, rights) != 0) return 1;
  }
  printf("mprotect %.9f\n", seconds_now() - start);
  return 0;
}
