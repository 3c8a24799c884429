// Two threads add what their jobs came to, without a lock: one addition may undo another.
#include <pthread.h>
#include <stdio.h>

#include "tests/programs/races/work.h"

enum { kJobs = 4 };

static long total;

__attribute__((noinline)) static void add(long job) {
  const long t = *(volatile long*)&total;
  *(volatile long*)&total = t + job;  // the racing store
}

static void* worker(void* argument) {
  const long amount = (long)argument;
  uint64_t state = amount;
  for (int i = 0; i < kJobs; i++) {
    state = work(state, 2000);
    add(amount);
  }
  return NULL;
}

int main(void) {
  pthread_t one, other;
  pthread_create(&one, NULL, worker, (void*)1);
  pthread_create(&other, NULL, worker, (void*)100);
  pthread_join(one, NULL);
  pthread_join(other, NULL);
  if (total == 101 * kJobs) return 0;
  printf("%ld of %d\n", total, 101 * kJobs);
  return 1;
}
