// Runs one parallel kernel for a number of steps, with points between them: ten breakpoints of
// level 2 and ten of level 1, in turn, evenly over the run. Prints the seconds that the steps took,
// elapsed and of processor time, and a sum of the results.
//
//   parallel KERNEL THREADS STEPS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/parallel/kernel.h"
#include "bench/timing.h"
#include "libhindsight/hindsight.h"

enum { kPoints = 20, kClass = 1 };

static const struct kernel* const kernels[] = {&kBodies, &kLu,      &kJacobi, &kFft,
                                               &kSort,   &kUpdates, &kJoin,   &kSparse};
enum { kKernels = sizeof(kernels) / sizeof(kernels[0]) };

static const struct kernel* kernel;
static int threads;
static long steps;
static pthread_barrier_t together;

void meet(void) { pthread_barrier_wait(&together); }

void* memory(size_t bytes) {
  void* const start = calloc(1, bytes);
  if (start == NULL) {
    fprintf(stderr, "parallel: out of memory\n");
    exit(1);
  }
  return start;
}

uint64_t sum_of(const void* start, size_t bytes) {
  const uint64_t* const words = start;
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes / 8; i++) sum += mix(words[i] + i);
  return sum;
}

// The run has kPoints + 1 parts of equal length; between two of them is a point.
static void point_after(long step) {
  const long part = (step + 1) * (kPoints + 1) / steps;
  if (part == step * (kPoints + 1) / steps || part > kPoints) return;
  hs_breakpoint(part % 2 == 1 ? 2 : 1, kClass, (uint32_t)part, false, NULL);
}

static void* run(void* number) {
  const int thread = *(const int*)number;
  for (long step = 0; step < steps; step++) {
    kernel->step(thread, threads, step);
    meet();
    if (thread == 0) point_after(step);
  }
  return NULL;
}

// Of this process, in the kernel as well.
static double processor_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int usage(void) {
  fprintf(stderr, "usage: parallel KERNEL THREADS STEPS\n");
  fprintf(stderr, "at most %d threads, at least %d steps; the kernels:\n", kMostThreads,
          kPoints + 1);
  for (int i = 0; i < kKernels; i++) {
    fprintf(stderr, "  %-8s %s\n", kernels[i]->name, kernels[i]->what);
  }
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 4) return usage();
  for (int i = 0; i < kKernels; i++) {
    if (strcmp(kernels[i]->name, argv[1]) == 0) kernel = kernels[i];
  }
  threads = atoi(argv[2]);
  steps = atol(argv[3]);
  if (kernel == NULL || threads < 1 || threads > kMostThreads || steps <= kPoints) return usage();
  kernel->set_up(threads, steps);
  pthread_barrier_init(&together, NULL, (unsigned)threads);
  pthread_t ids[kMostThreads];
  int numbers[kMostThreads];
  const double begin = seconds_now(), processor_begin = processor_seconds();
  for (int i = 0; i < threads; i++) {
    numbers[i] = i;
    if (i > 0 && pthread_create(&ids[i], NULL, run, &numbers[i]) != 0) return 1;
  }
  run(&numbers[0]);
  for (int i = 1; i < threads; i++) pthread_join(ids[i], NULL);
  printf("seconds %.6f\n", seconds_now() - begin);
  printf("processor %.6f\n", processor_seconds() - processor_begin);
  printf("sum %016llx\n", (unsigned long long)kernel->sum());
  return 0;
}
