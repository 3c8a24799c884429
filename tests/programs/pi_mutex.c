// Threads contend for a mutex with priority inheritance.
#include <pthread.h>
#include <stdio.h>

#include "tests/programs/require.h"

enum { kThreads = 4, kRounds = 100 };

static pthread_mutex_t mutex;
static int counter;
static pthread_barrier_t start;

static void* run(void* argument) {
  pthread_barrier_wait(&start);
  for (int i = 0; i < kRounds; i++) {
    REQUIRE(pthread_mutex_lock(&mutex) == 0);
    const int before = counter;
    for (volatile int wait = 0; wait < 50; wait++) {
    }
    counter = before + 1;
    REQUIRE(pthread_mutex_unlock(&mutex) == 0);
  }
  return argument;
}

int main(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  REQUIRE(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
  REQUIRE(pthread_mutex_init(&mutex, &attributes) == 0);
  pthread_barrier_init(&start, NULL, kThreads);
  pthread_t threads[kThreads];
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, run, NULL);
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  printf("%d\n", counter);
  return 0;
}
