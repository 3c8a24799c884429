// Two threads count without a lock: the result differs from run to run.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { kEach = 1500000 };

static volatile uint32_t counter;
static pthread_barrier_t start;

static void* count(void* argument) {
  pthread_barrier_wait(&start);
  for (int i = 0; i < kEach; i++) {
    const uint32_t seen = counter;
    counter = seen + 1;  // may undo what the other did since
  }
  return argument;
}

int main(void) {
  pthread_t one, other;
  pthread_barrier_init(&start, NULL, 2);
  pthread_create(&one, NULL, count, NULL);
  pthread_create(&other, NULL, count, NULL);
  pthread_join(one, NULL);
  pthread_join(other, NULL);
  printf("%u\n", counter);
  return 0;
}
