// Time through the vdso: it differs in each run, the output does not.
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>

static int64_t now_ns(clockid_t clock) {
  struct timespec value;
  clock_gettime(clock, &value);
  return value.tv_sec * 1000000000ll + value.tv_nsec;
}

int main(void) {
  const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_MONOTONIC_COARSE,
                              CLOCK_BOOTTIME, CLOCK_PROCESS_CPUTIME_ID};
  for (int c = 0; c < 5; c++) {
    int64_t last = now_ns(clocks[c]);
    int backward = 0;
    for (int i = 0; i < 200; i++) {
      int64_t now = now_ns(clocks[c]);
      if (now < last) backward++;
      last = now;
    }
    printf("clock %d: %d times backward\n", c, backward);
  }
  struct timeval day;
  gettimeofday(&day, NULL);
  time_t seconds = time(NULL);
  printf("time agrees: %d\n", seconds - day.tv_sec <= 1);
  struct timespec shortly = {0, 2000000};
  int64_t before = now_ns(CLOCK_MONOTONIC);
  nanosleep(&shortly, NULL);
  printf("slept: %d\n", now_ns(CLOCK_MONOTONIC) - before >= 2000000);
  unsigned cpu = 0, node = 0;
  getcpu(&cpu, &node);
  printf("cpu known: %d\n", cpu < 4096);
  return 0;
}
