// A sparse matrix times a vector, again and again: a step is one multiplication. The matrix stays.
#include "bench/parallel/kernel.h"

enum { kRows = 2 << 20, kInRow = 16 };

static double *values, *vectors[2];
static uint32_t* columns;

static void set_up(int threads, long steps) {
  (void)threads, (void)steps;
  values = memory(sizeof(*values) * kRows * kInRow);
  columns = memory(sizeof(*columns) * kRows * kInRow);
  for (uint64_t i = 0; i < (uint64_t)kRows * kInRow; i++) {
    // Most of a row lies near the diagonal, as in matrices of meshes.
    const uint64_t row = i / kInRow, near = row + mix(i) % 4096;
    columns[i] = (uint32_t)((i % kInRow == 0 ? mix(i + 7) : near) % kRows);
    values[i] = fraction(i) / kInRow * 2;
  }
  for (int i = 0; i < 2; i++) vectors[i] = memory(sizeof(double) * kRows);
  for (uint64_t i = 0; i < kRows; i++) vectors[0][i] = 1 + fraction(i);
}

static void step(int thread, int threads, long step) {
  const double* const from = vectors[step % 2];
  double* const to = vectors[(step + 1) % 2];
  const size_t end = share(kRows, thread + 1, threads);
  for (size_t row = share(kRows, thread, threads); row < end; row++) {
    double sum = 0;
    for (size_t i = row * kInRow; i < (row + 1) * kInRow; i++) sum += values[i] * from[columns[i]];
    to[row] = sum;
  }
}

static uint64_t sum(void) {
  return sum_of(vectors[0], sizeof(double) * kRows) + sum_of(vectors[1], sizeof(double) * kRows);
}

const struct kernel kSparse = {"sparse", "sparse matrix x vector, 416 MB", set_up, step, sum};
