// Changes some of its pages between one snapshot and the next, in several ways. Prints where they
// are. Page i begins with the word that WordOf in snap_pages_test.cc says.

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "libhindsight/hindsight.h"

enum { kPages = 1024, kPageWords = 512, kSnapshots = 6 };

static uint64_t (*pages)[kPageWords];

static void fill(int page, uint64_t seed) {
  for (int i = 0; i < kPageWords; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    pages[page][i] = seed;
  }
}

static void write_some(int round) {
  for (int i = round; i < kPages; i += 16) pages[i][0] = (uint64_t)(1000 * round + i);
  // The same bytes again, in another page frame; then the place of another page.
  void* const place = pages[15];
  mmap(place, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  fill(15, 15);
  pages[15][0] = 15;
  if (round == 3) mremap(pages[31], 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, pages[47]);
}

int main(void) {
  pages = mmap(NULL, sizeof(*pages) * kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
               -1, 0);
  for (int i = 0; i < kPages; i++) {
    fill(i, (uint64_t)i);
    pages[i][0] = (uint64_t)i;
  }
  printf("%p\n", (void*)pages);
  fflush(stdout);
  for (int round = 1; round <= kSnapshots; round++) {
    hs_snapshot("round");
    write_some(round);
  }
  return 0;
}
