// Reaches points of libhindsight, as its argument says.
//
//   steps     five snapshots, `number` counts them; then breakpoints of level 1 to 3, one of them
//             twice with `once`
//   threads   four threads that count, each with two points on the way
//   fork      one here, one in a child
//   exec      one, then this program anew: steps
//   signals   SIGUSR1 to a handler, SIGTERM that nobody handles
//   fault     a store to address 8
//   busy      counts for half a second; work() is called four times
//   wait      sleeps for a second

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libhindsight/hindsight.h"

volatile uint64_t number;
atomic_int signals;
pthread_barrier_t barrier;

static void Steps(void) {
  for (number = 1; number <= 5; ++number) hs_snapshot("step");
  for (int level = 1; level <= 3; ++level) {
    hs_breakpoint(level, 7, 10 + level, false, HS_ATTRIBUTES({"phase", level == 3 ? "end" : "on"}));
  }
  for (int i = 0; i < 2; ++i) hs_breakpoint(9, 8, 1, true, NULL);
}

static void* Count(void* index) {
  volatile uint64_t mine = 0;
  pthread_barrier_wait(&barrier);
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 300000; ++i) ++mine;
    hs_breakpoint(1, 1, (uint32_t)(uintptr_t)index, false, NULL);
  }
  for (int i = 0; i < 300000; ++i) ++mine;
  return NULL;
}

static void Threads(void) {
  pthread_t threads[4];
  pthread_barrier_init(&barrier, NULL, 4);
  for (uintptr_t i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, Count, (void*)i);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
}

static void Fork(void) {
  hs_snapshot("parent");
  if (fork() == 0) {
    number = 77;
    hs_snapshot("child");
    _exit(0);
  }
  wait(NULL);
}

static void OnSignal(int signal) { ++signals; }

static void Signals(void) {
  signal(SIGUSR1, OnSignal);
  number = 1;
  raise(SIGUSR1);
  number = 2;
  raise(SIGTERM);
}

__attribute__((noinline)) void work(void) {
  for (int i = 0; i < 1000; ++i) ++number;
}

static void Busy(void) {
  struct timespec start, now;
  for (int i = 0; i < 4; ++i) work();
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    for (int i = 0; i < 100000; ++i) ++number;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < 500);
}

int main(int count, char** arguments) {
  const char* what = count > 1 ? arguments[1] : "steps";
  if (!strcmp(what, "steps")) Steps();
  if (!strcmp(what, "threads")) Threads();
  if (!strcmp(what, "fork")) Fork();
  if (!strcmp(what, "exec")) {
    hs_snapshot("before");
    execl("/proc/self/exe", arguments[0], "steps", (char*)NULL);
  }
  if (!strcmp(what, "signals")) Signals();
  if (!strcmp(what, "fault")) *(volatile int*)8 = 1;
  if (!strcmp(what, "busy")) Busy();
  if (!strcmp(what, "wait")) sleep(1);
  return 0;
}
