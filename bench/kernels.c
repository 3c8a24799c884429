// Kernels that bench/run times under each engine: kernels NAME [THREADS]. Each thread does its
// share of work that is the same however many there are. The result is printed, so that the
// compiler leaves nothing out.
#include <complex.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timing.h"

enum { kMostThreads = 16 };

static int threads = 1;
static pthread_barrier_t all_here;

static void wait_for_all(void) { pthread_barrier_wait(&all_here); }

// The share of `size` things that is thread `number`'s.
static size_t share(size_t size, int number) { return size * (size_t)number / (size_t)threads; }

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525 + 1013904223;
  return *state >> 8;
}

// LU decomposition without exchange of rows: a barrier for each column.
enum { kMatrix = 1024 };
static double matrix[kMatrix][kMatrix];

static void make_matrix(void) {
  uint32_t random = 1;
  for (int row = 0; row < kMatrix; row++) {
    for (int i = 0; i < kMatrix; i++) {
      matrix[row][i] = next_random(&random) % 100 + (row == i) * 1000;
    }
  }
}

static void decompose(int number) {
  for (int column = 0; column < kMatrix - 1; column++) {
    // A row is always the same thread's.
    const int owned = (number - (column + 1) % threads + threads) % threads;
    for (int row = column + 1 + owned; row < kMatrix; row += threads) {
      const double factor = matrix[row][column] /= matrix[column][column];
      for (int i = column + 1; i < kMatrix; i++) matrix[row][i] -= factor * matrix[column][i];
    }
    wait_for_all();
  }
}

static double trace_of_matrix(void) {
  double sum = 0;
  for (int i = 0; i < kMatrix; i++) sum += matrix[i][i];
  return sum;
}

// Each thread sorts its part; then pairs of parts are merged.
enum { kNumbers = 2000000 };
static uint32_t numbers[kNumbers], merged[kNumbers];

static void make_numbers(void) {
  uint32_t random = 2;
  for (int i = 0; i < kNumbers; i++) numbers[i] = next_random(&random);
}

static int compare(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return x < y ? -1 : x > y;
}

static void merge(size_t start, size_t middle, size_t end) {
  size_t left = start, right = middle;
  for (size_t i = start; i < end; i++) {
    const int take_left = right == end || (left < middle && numbers[left] <= numbers[right]);
    merged[i] = take_left ? numbers[left++] : numbers[right++];
  }
  memcpy(numbers + start, merged + start, (end - start) * sizeof(numbers[0]));
}

static void sort_numbers(int number) {
  const size_t start = share(kNumbers, number);
  qsort(numbers + start, share(kNumbers, number + 1) - start, sizeof(numbers[0]), compare);
  for (int step = 1; step < threads; step *= 2) {
    wait_for_all();
    const int last = number + 2 * step < threads ? number + 2 * step : threads;
    if (number % (2 * step) == 0 && number + step < threads) {
      merge(share(kNumbers, number), share(kNumbers, number + step), share(kNumbers, last));
    }
  }
}

static double sum_of_numbers(void) {
  double sum = 0;
  for (int i = 0; i < kNumbers; i++) sum += (double)numbers[i] * (i % 3);
  return sum;
}

// Radix-2 transform, in place: a barrier for each stage.
enum { kPointBits = 17, kPoints = 1 << kPointBits, kTransforms = 24 };
static double complex points[kPoints], roots[kPoints / 2];

static void make_points(void) {
  for (int i = 0; i < kPoints / 2; i++) roots[i] = cexp(-2 * M_PI * I * i / kPoints);
  for (int i = 0; i < kPoints; i++) points[i] = i % 17 - i % 5 * I;
}

static void transform_once(int number) {
  for (int stage = kPointBits - 1; stage >= 0; stage--) {
    const size_t half = (size_t)1 << stage, stride = kPoints / 2 / half;
    const size_t end = share(kPoints / 2, number + 1);
    for (size_t k = share(kPoints / 2, number); k < end; k++) {
      const size_t low = (k / half) * 2 * half + k % half;
      const double complex a = points[low], b = points[low + half];
      points[low] = a + b;
      points[low + half] = (a - b) * roots[(k % half) * stride];
    }
    wait_for_all();
  }
}

static void transform(int number) {
  for (int i = 0; i < kTransforms; i++) {
    transform_once(number);
    // So that numbers stay small.
    for (size_t k = share(kPoints, number); k < share(kPoints, number + 1); k++) points[k] /= 256;
    wait_for_all();
  }
}

static double sum_of_points(void) {
  double sum = 0;
  for (int i = 0; i < kPoints; i++) sum += cabs(points[i]);
  return sum;
}

// Many short critical sections, in turn under one of few locks.
enum { kSections = 10000000, kLocks = 4 };
static pthread_mutex_t locks[kLocks];
static uint64_t guarded[kLocks][8];

static void make_locks(void) {
  for (int i = 0; i < kLocks; i++) pthread_mutex_init(&locks[i], NULL);
}

static void use_locks(int number) {
  uint32_t random = (uint32_t)number;
  const size_t end = share(kSections, number + 1);
  for (size_t i = share(kSections, number); i < end; i++) {
    const uint32_t which = next_random(&random) % kLocks;
    pthread_mutex_lock(&locks[which]);
    for (int word = 0; word < 8; word++) guarded[which][word] += i % 7;
    pthread_mutex_unlock(&locks[which]);
  }
}

static double sum_of_guarded(void) {
  double sum = 0;
  for (int i = 0; i < kLocks; i++) sum += (double)guarded[i][0];
  return sum;
}

// Little work between barriers.
enum { kRounds = 20000, kCells = 4096 };
static double cells[2][kCells];

static void make_cells(void) {
  for (int i = 0; i < kCells; i++) cells[0][i] = i % 31;
}

static void relax(int number) {
  for (int round = 0; round < kRounds; round++) {
    const double* from = cells[round % 2];
    double* to = cells[(round + 1) % 2];
    const size_t end = share(kCells, number + 1);
    for (size_t i = share(kCells, number); i < end; i++) {
      const double left = from[i == 0 ? 0 : i - 1], right = from[i + 1 == kCells ? i : i + 1];
      to[i] = 0.25 * left + 0.5 * from[i] + 0.25 * right;
    }
    wait_for_all();
  }
}

static double sum_of_cells(void) {
  double sum = 0;
  for (int i = 0; i < kCells; i++) sum += cells[0][i] * i;
  return sum;
}

// Gravity among few bodies.
enum { kBodies = 5, kSteps = 4000000 };
static double place[kBodies][3], speed[kBodies][3], mass[kBodies];

static void make_bodies(void) {
  uint32_t random = 3;
  for (int i = 0; i < kBodies; i++) {
    mass[i] = 1 + i;
    for (int axis = 0; axis < 3; axis++) {
      place[i][axis] = i * 10 + next_random(&random) % 10;
      speed[i][axis] = (double)(next_random(&random) % 100) / 1000;
    }
  }
}

static void attract(int a, int b) {
  double distance[3], square = 0.01;
  for (int axis = 0; axis < 3; axis++) {
    distance[axis] = place[a][axis] - place[b][axis];
    square += distance[axis] * distance[axis];
  }
  const double force = 0.001 / (square * sqrt(square));
  for (int axis = 0; axis < 3; axis++) {
    speed[a][axis] -= distance[axis] * mass[b] * force;
    speed[b][axis] += distance[axis] * mass[a] * force;
  }
}

static void move_bodies(int number) {
  if (number != 0) return;
  for (int step = 0; step < kSteps; step++) {
    for (int a = 0; a < kBodies; a++) {
      for (int b = a + 1; b < kBodies; b++) attract(a, b);
    }
    for (int i = 0; i < kBodies; i++) {
      for (int axis = 0; axis < 3; axis++) place[i][axis] += 0.001 * speed[i][axis];
    }
  }
}

static double sum_of_places(void) { return place[0][0] + place[1][1] + place[2][2]; }

// Three vectors that no cache holds.
enum { kVector = 3000000, kPasses = 30 };
static double vectors[3][kVector];

static void make_vectors(void) {
  for (int i = 0; i < kVector; i++) vectors[1][i] = vectors[2][i] = i % 11;
}

static void stream(int number) {
  const size_t start = share(kVector, number), end = share(kVector, number + 1);
  for (int pass = 0; pass < kPasses; pass++) {
    for (size_t i = start; i < end; i++) vectors[0][i] = vectors[1][i] + 3 * vectors[2][i];
    for (size_t i = start; i < end; i++) vectors[1][i] = vectors[0][i] - 2 * vectors[2][i];
  }
}

static double sum_of_vectors(void) { return vectors[0][kVector / 2] + vectors[1][kVector - 1]; }

// Words at random places of a table that no cache holds; each thread has its part of the table.
enum { kTable = 4 * 1024 * 1024, kUpdates = 12000000 };
static uint64_t table[kTable];

static void make_table(void) {
  for (int i = 0; i < kTable; i++) table[i] = (uint64_t)i;
}

static void update(int number) {
  const size_t start = share(kTable, number), size = share(kTable, number + 1) - start;
  uint64_t random = 0x9e3779b97f4a7c15 + (uint64_t)number;
  for (size_t i = share(kUpdates, number); i < share(kUpdates, number + 1); i++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    table[start + random % size] ^= random;
  }
}

static double sum_of_table(void) {
  uint64_t sum = 0;
  for (int i = 0; i < kTable; i++) sum += table[i];
  return (double)sum;
}

static const struct Kernel {
  const char* name;
  void (*prepare)(void);
  void (*run)(int number);
  double (*result)(void);
} kernels[] = {
    {"lu", make_matrix, decompose, trace_of_matrix},
    {"sort", make_numbers, sort_numbers, sum_of_numbers},
    {"fft", make_points, transform, sum_of_points},
    {"locks", make_locks, use_locks, sum_of_guarded},
    {"barriers", make_cells, relax, sum_of_cells},
    {"nbody", make_bodies, move_bodies, sum_of_places},
    {"stream", make_vectors, stream, sum_of_vectors},
    {"updates", make_table, update, sum_of_table},
};

static const struct Kernel* kernel;

static void* run_share(void* number) {
  kernel->run(*(const int*)number);
  return NULL;
}

static const struct Kernel* find_kernel(const char* name) {
  for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
    if (strcmp(kernels[i].name, name) == 0) return &kernels[i];
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc > 2) threads = atoi(argv[2]);
  if (argc > 1) kernel = find_kernel(argv[1]);
  if (kernel == NULL || threads < 1 || threads > kMostThreads) {
    fprintf(stderr, "usage: kernels NAME [THREADS], at most %d\n", kMostThreads);
    return 1;
  }
  kernel->prepare();
  pthread_barrier_init(&all_here, NULL, (unsigned)threads);
  pthread_t ids[kMostThreads];
  int shares[kMostThreads];
  const double start = seconds_now();
  for (int i = 0; i < threads; i++) {
    shares[i] = i;
    // The first share is this thread's: one thread is a program without any other.
    if (i > 0 && pthread_create(&ids[i], NULL, run_share, &shares[i]) != 0) return 1;
  }
  run_share(&shares[0]);
  for (int i = 1; i < threads; i++) pthread_join(ids[i], NULL);
  printf("seconds %.6f\n", seconds_now() - start);
  printf("result %.17g\n", kernel->result());
  return 0;
}
