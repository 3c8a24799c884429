// Timers that count the processor time of the process, and signals from them.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#include "tests/programs/require.h"

static volatile sig_atomic_t arrived;
static volatile uint64_t work;

static void on_signal(int number) {
  (void)number;
  arrived++;
}

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Computes until the signal came twice, or much too long.
static void compute(const char* what) {
  const double start = seconds(CLOCK_MONOTONIC);
  arrived = 0;
  while (arrived < 2 && seconds(CLOCK_MONOTONIC) - start < 5) {
    for (int i = 0; i < 100000; i++) work = work + 1;
  }
  printf("%s: %s\n", what, arrived >= 2 ? "came" : "did not come");
}

static void interval_timer(const char* what, int which, int number) {
  const struct itimerval every = {{0, 2000}, {0, 2000}};
  const struct itimerval off = {{0, 0}, {0, 0}};
  signal(number, on_signal);
  setitimer(which, &every, NULL);
  compute(what);
  setitimer(which, &off, NULL);
}

int main(void) {
  interval_timer("user time", ITIMER_VIRTUAL, SIGVTALRM);
  interval_timer("user and system time", ITIMER_PROF, SIGPROF);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  timer_t timer;
  signal(SIGUSR1, on_signal);
  REQUIRE(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0);
  const struct itimerspec every = {{0, 2000000}, {0, 2000000}};
  timer_settime(timer, 0, &every, NULL);
  compute("time of the thread");
  timer_delete(timer);
  const double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int i = 0; i < 1000000; i++) work = work + 1;
  printf("processor time %s\n", seconds(CLOCK_PROCESS_CPUTIME_ID) > before ? "passes" : "STANDS");
  return 0;
}
