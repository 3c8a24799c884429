// Three threads that come to breakpoints all the time, until its input ends. Says when they have
// been made, and at the end whether they still did.

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "libhindsight/hindsight.h"

static _Atomic long arrivals;

static void* run(void* number) {
  for (long i = 0; 1; ++i) {
    ++arrivals;
    hs_breakpoint(2, 1, (unsigned)(long)number, false, NULL);
    if (i % 100 == 0) usleep(100);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[3];
  for (long i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, run, (void*)i);
  puts("ready");
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  const long before = arrivals;
  usleep(300 * 1000);
  printf("%s\n", arrivals > before + 300 ? "alive" : "stuck");
  return 0;
}
