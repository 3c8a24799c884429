// One thread waits for a time while another computes.
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/programs/require.h"

static atomic_int over;

static void* work(void* unused) {
  volatile unsigned long done = 0;
  while (!atomic_load_explicit(&over, memory_order_relaxed)) done++;
  return unused;
}

int main(void) {
  pthread_t worker;
  REQUIRE(pthread_create(&worker, NULL, work, NULL) == 0);
  REQUIRE(poll(NULL, 0, 400) == 0);
  atomic_store(&over, 1);
  pthread_join(worker, NULL);
  puts("waited");
  return 0;
}
