// Jacobi's method on a square grid: a step computes each number of the grid anew from its
// neighbours.
#include "bench/parallel/kernel.h"

enum { kSize = 2048 };

static double (*grids[2])[kSize];

static void set_up(int threads, long steps) {
  (void)threads, (void)steps;
  for (int i = 0; i < 2; i++) {
    grids[i] = memory(sizeof(double) * kSize * kSize);
    // The edge stays; within it is noise, which no compressor makes small.
    for (size_t at = 0; at < (size_t)kSize * kSize; at++) (&grids[i][0][0])[at] = fraction(at);
  }
}

static void step(int thread, int threads, long step) {
  double(*const from)[kSize] = grids[step % 2];
  double(*const to)[kSize] = grids[(step + 1) % 2];
  const size_t end = 1 + share(kSize - 2, thread + 1, threads);
  for (size_t row = 1 + share(kSize - 2, thread, threads); row < end; row++) {
    for (int i = 1; i < kSize - 1; i++) {
      to[row][i] =
          0.25 * (from[row - 1][i] + from[row + 1][i] + from[row][i - 1] + from[row][i + 1]);
    }
  }
}

static uint64_t sum(void) {
  return sum_of(grids[0], sizeof(double) * kSize * kSize) +
         sum_of(grids[1], sizeof(double) * kSize * kSize);
}

const struct kernel kJacobi = {"jacobi", "Jacobi's method on a grid, 64 MB", set_up, step, sum};
