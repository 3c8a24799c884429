// Threads that map, unmap and protect small pieces of memory at once: the kernel joins and splits
// its regions while the recorder reads them.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

enum { kThreads = 4, kRounds = 2000, kHeld = 16, kMostPages = 8, kPage = 4096 };

struct piece {
  char* start;
  size_t bytes;
};

static void unmap(struct piece* piece) {
  REQUIRE(munmap(piece->start, piece->bytes) == 0);
  piece->start = NULL;
}

static void map(struct piece* piece, unsigned* seed) {
  piece->bytes = (size_t)kPage * (1 + rand_r(seed) % kMostPages);
  piece->start =
      mmap(NULL, piece->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(piece->start != MAP_FAILED);
  piece->start[0] = 'x';
  if (piece->bytes == kPage || rand_r(seed) % 2 == 0) return;
  REQUIRE(mprotect(piece->start + kPage, kPage, PROT_READ) == 0);
}

static void* work(void* argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  struct piece held[kHeld];
  memset(held, 0, sizeof(held));
  for (int i = 0; i < kRounds; ++i) {
    struct piece* const piece = &held[rand_r(&seed) % kHeld];
    piece->start != NULL ? unmap(piece) : map(piece, &seed);
  }
  for (int i = 0; i < kHeld; ++i) {
    if (held[i].start != NULL) unmap(&held[i]);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    REQUIRE(pthread_create(&threads[i], NULL, work, (void*)(i + 1)) == 0);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  puts("done");
  return 0;
}
