// Random updates of a table (GUPS): each changes one word, and nobody knows which.
#include "bench/parallel/kernel.h"

enum { kUpdatesOfStep = 1 << 20 };
static const size_t kWords = (size_t)16 << 20;

static uint64_t* table;

static void set_up(int threads, long steps) {
  (void)threads, (void)steps;
  table = memory(kWords * sizeof(*table));
  for (size_t i = 0; i < kWords; i++) table[i] = mix(i);
}

static void step(int thread, int threads, long step) {
  const uint64_t base = (uint64_t)step * kUpdatesOfStep;
  const size_t end = share(kUpdatesOfStep, thread + 1, threads);
  for (size_t i = share(kUpdatesOfStep, thread, threads); i < end; i++) {
    const uint64_t number = mix(base + i);
    __atomic_fetch_xor(&table[number % kWords], number, __ATOMIC_RELAXED);
  }
}

static uint64_t sum(void) { return sum_of(table, kWords * sizeof(*table)); }

const struct kernel kUpdates = {"updates", "random updates of a table, 128 MB", set_up, step, sum};
