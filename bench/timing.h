// Seconds for programs that time parts of themselves and print them for bench/run.

#ifndef HINDSIGHT_BENCH_TIMING_H_
#define HINDSIGHT_BENCH_TIMING_H_

#include <time.h>

static inline double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#endif  // HINDSIGHT_BENCH_TIMING_H_
