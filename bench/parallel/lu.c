// LU decomposition in blocks, as in SPLASH-2: a step eliminates one column of blocks and updates
// all that lies below and to the right of it. When a matrix is done, another takes its place.
#include "bench/parallel/kernel.h"

enum { kSize = 2048, kBlock = 64, kBlocks = kSize / kBlock };

static double (*matrix)[kSize];

static void fill_rows(int first, int end, long number) {
  for (int row = first; row < end; row++) {
    for (int i = 0; i < kSize; i++) {
      const uint64_t place = ((uint64_t)number * kSize + (uint64_t)row) * kSize + (uint64_t)i;
      // Large on the diagonal, so that no rows need exchanging.
      matrix[row][i] = fraction(place) + (row == i ? kSize : 0);
    }
  }
}

static void set_up(int threads, long steps) {
  (void)threads, (void)steps;
  matrix = memory(sizeof(double) * kSize * kSize);
  fill_rows(0, kSize, 0);
}

static void factor_diagonal(int from) {
  for (int k = from; k < from + kBlock; k++) {
    for (int row = k + 1; row < from + kBlock; row++) {
      const double factor = matrix[row][k] /= matrix[k][k];
      for (int i = k + 1; i < from + kBlock; i++) matrix[row][i] -= factor * matrix[k][i];
    }
  }
}

// The block of rows below the diagonal that begins with `row`: what they are multiples of.
static void solve_left(int from, int first) {
  for (int row = first; row < first + kBlock; row++) {
    for (int k = from; k < from + kBlock; k++) {
      const double factor = matrix[row][k] /= matrix[k][k];
      for (int i = k + 1; i < from + kBlock; i++) matrix[row][i] -= factor * matrix[k][i];
    }
  }
}

static void solve_above(int from, int column) {
  for (int row = from + 1; row < from + kBlock; row++) {
    for (int k = from; k < row; k++) {
      const double factor = matrix[row][k];
      for (int i = column; i < column + kBlock; i++) matrix[row][i] -= factor * matrix[k][i];
    }
  }
}

static void update(int from, int first, int column) {
  for (int row = first; row < first + kBlock; row++) {
    for (int k = from; k < from + kBlock; k++) {
      const double factor = matrix[row][k];
      for (int i = column; i < column + kBlock; i++) matrix[row][i] -= factor * matrix[k][i];
    }
  }
}

static void step(int thread, int threads, long step) {
  const int at = (int)(step % kBlocks), from = at * kBlock;
  if (at == 0 && step > 0) {
    fill_rows((int)share(kSize, thread, threads), (int)share(kSize, thread + 1, threads), step);
    meet();
  }
  if (thread == 0) factor_diagonal(from);
  meet();
  for (int block = at + 1 + thread; block < kBlocks; block += threads) {
    solve_left(from, block * kBlock);
    solve_above(from, block * kBlock);
  }
  meet();
  for (int block = at + 1 + thread; block < kBlocks; block += threads) {
    for (int other = at + 1; other < kBlocks; other++) {
      update(from, block * kBlock, other * kBlock);
    }
  }
}

static uint64_t sum(void) { return sum_of(matrix, sizeof(double) * kSize * kSize); }

const struct kernel kLu = {"lu", "LU decomposition in blocks, 32 MB", set_up, step, sum};
