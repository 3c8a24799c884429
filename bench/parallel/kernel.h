// A parallel kernel of the benchmark of snapshots: its memory, and one step of it at a time.

#ifndef HINDSIGHT_BENCH_PARALLEL_KERNEL_H_
#define HINDSIGHT_BENCH_PARALLEL_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

enum { kMostThreads = 16 };

struct kernel {
  const char* name;
  const char* what;
  // Allocates and fills the kernel's memory. `steps` will be made.
  void (*set_up)(int threads, long steps);
  // One thread's share of a step. All threads call it; none begins the next step before all have
  // ended this one.
  void (*step)(int thread, int threads, long step);
  // A number that depends on all results, and not on who did what when.
  uint64_t (*sum)(void);
};

extern const struct kernel kLu, kFft, kSort, kBodies, kJacobi, kSparse, kUpdates, kJoin;

// Returns when all threads have called it: for kernels whose steps have parts.
void meet(void);

// Zeros, or the end of the program.
void* memory(size_t bytes);

// The first index of `thread`'s share of `count`; that of the next thread is its end.
static inline size_t share(size_t count, int thread, int threads) {
  return count * (size_t)thread / (size_t)threads;
}

// splitmix64: a number that looks random, for each number.
static inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// From 0 to 1.
static inline double fraction(uint64_t x) { return (double)(mix(x) >> 11) * 0x1p-53; }

// The sum of the bytes' words, as `sum` wants it. `bytes` is a multiple of eight.
uint64_t sum_of(const void* start, size_t bytes);

#endif  // HINDSIGHT_BENCH_PARALLEL_KERNEL_H_
