// A hash join: the first tenth of the steps enters one table's rows into a hash table, the others
// look up the rows of a table that is as long as it needs to be, and count by group what they find.
#include "bench/parallel/kernel.h"

enum { kRowsOfStep = 1 << 18, kGroups = 1 << 16 };
static const uint64_t kSlots = (uint64_t)16 << 20;
static const uint64_t kEntered = (uint64_t)8 << 20;

struct slot {
  uint64_t key, value;
};

static struct slot* slots;
static uint64_t *keys, *counts;
static long building;  // steps

static void set_up(int threads, long steps) {
  (void)threads;
  slots = memory(kSlots * sizeof(*slots));
  keys = memory(kEntered * sizeof(*keys));
  counts = memory(kGroups * sizeof(*counts));
  for (uint64_t i = 0; i < kEntered; i++) keys[i] = mix(i) | 1;
  // The program's memory is there from the first step on.
  for (uint64_t i = 0; i < kSlots; i++) slots[i].value = mix(i);
  building = steps / 10;
}

static void enter(uint64_t key) {
  for (uint64_t at = mix(key) % kSlots;; at = (at + 1) % kSlots) {
    uint64_t free = 0;
    if (__atomic_compare_exchange_n(&slots[at].key, &free, key, 0, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
      __atomic_store_n(&slots[at].value, key >> 7, __ATOMIC_RELAXED);
      return;
    }
  }
}

static void look_up(uint64_t key) {
  for (uint64_t at = mix(key) % kSlots; slots[at].key != 0; at = (at + 1) % kSlots) {
    if (slots[at].key != key) continue;
    __atomic_fetch_add(&counts[slots[at].value % kGroups], 1, __ATOMIC_RELAXED);
    return;
  }
}

static void step(int thread, int threads, long step) {
  if (step < building) {
    const size_t first = share(kEntered, (int)step, (int)building);
    const size_t count = share(kEntered, (int)step + 1, (int)building) - first;
    const size_t end = first + share(count, thread + 1, threads);
    for (size_t i = first + share(count, thread, threads); i < end; i++) enter(keys[i]);
    return;
  }
  const uint64_t base = (uint64_t)step * kRowsOfStep;
  const size_t end = share(kRowsOfStep, thread + 1, threads);
  for (size_t i = share(kRowsOfStep, thread, threads); i < end; i++) {
    // Every other row has a partner.
    look_up(mix(mix(base + i) % (2 * kEntered)) | 1);
  }
}

static uint64_t sum(void) { return sum_of(counts, kGroups * sizeof(*counts)); }

const struct kernel kJoin = {"join", "hash join, 320 MB", set_up, step, sum};
