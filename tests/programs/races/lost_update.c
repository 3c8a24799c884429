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
  uint64_t state = (uint64_t)argument;
  for (int i = 0; i < kJobs; i++) {
    state = work(state, 2000);
    add(1);
  }
  return NULL;
}

int main(void) {
  pthread_t one, other;
  pthread_create(&one, NULL, worker, (void*)1);
  pthread_create(&other, NULL, worker, (void*)2);
  pthread_join(one, NULL);
  pthread_join(other, NULL);
  if (total == 2 * kJobs) return 0;
  printf("%ld jobs of %d\n", total, 2 * kJobs);
  return 1;
}
