// Writes most of its memory anew, by two threads, between one snapshot and the next, and the rest
// now and then. Prints where it is. What is in which page: WordOf in rewrites_test.cc.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "libhindsight/hindsight.h"

enum { kPages = 24 * 256, kBlockPages = 256, kPageWords = 512, kSnapshots = 12 };

static uint64_t (*pages)[kPageWords];
static pthread_barrier_t barrier;

static int is_written(int block, int round) {
  if (round == 1) return 1;
  if (block % 6 == 5) return 0;
  return block % 6 != 4 || (round >= 4 && round <= 6);
}

static void write_half(int first, int round) {
  for (int page = first; page < kPages; page += 2) {
    if (!is_written(page / kBlockPages, round)) continue;
    for (int i = 0; i < kPageWords; i++) pages[page][i] = (uint64_t)round << 32 | (uint64_t)page;
  }
}

static void* run(void* argument) {
  for (int round = 1; round <= kSnapshots; round++) {
    write_half(1, round);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
  }
  return argument;
}

int main(void) {
  pages = mmap(NULL, sizeof(*pages) * kPages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
               -1, 0);
  printf("%p\n", (void*)pages);
  fflush(stdout);
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, run, NULL);
  for (int round = 1; round <= kSnapshots; round++) {
    write_half(0, round);
    pthread_barrier_wait(&barrier);
    hs_snapshot("round");
    pthread_barrier_wait(&barrier);
  }
  pthread_join(thread, NULL);
  return 0;
}
