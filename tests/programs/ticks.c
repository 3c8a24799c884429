// Says a line every 50 ms of its own clock and never ends. For recorders that are killed.
#include <stdio.h>
#include <time.h>

int main(void) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  static volatile unsigned long work = 0;
  for (long tick = 1;; tick++) {
    do {
      for (int i = 0; i < 2000; i++) work += i;
      clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 <
             tick * 50);
    printf("tick %ld\n", tick);
    fflush(stdout);
  }
}
