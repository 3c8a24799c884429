// Threads that are cancelled: blocked in a call, at a test point, and in the middle of computing.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/require.h"

static sem_t ready;
static int cleaned;  // by handlers of one thread at a time
static int pipe_fds[2];
static atomic_int go_on;

static void clean(void* argument) { cleaned = cleaned * 10 + (int)(intptr_t)argument; }

static void unlock(void* mutex) { pthread_mutex_unlock(mutex); }

static void* in_read(void* argument) {
  char byte;
  pthread_cleanup_push(clean, (void*)1);
  pthread_cleanup_push(clean, (void*)2);
  sem_post(&ready);
  if (read(pipe_fds[0], &byte, 1) < 0) return argument;
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return argument;
}

static void* in_condition(void* argument) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push(unlock, &mutex);
  pthread_cleanup_push(clean, (void*)3);
  sem_post(&ready);
  for (;;) pthread_cond_wait(&never, &mutex);
  pthread_cleanup_pop(0);
  pthread_cleanup_pop(0);
  return argument;
}

static void* at_test_point(void* argument) {
  pthread_cleanup_push(clean, (void*)4);
  sem_post(&ready);
  for (;;) pthread_testcancel();
  pthread_cleanup_pop(0);
  return argument;
}

static void* computing(void* argument) {
  volatile uint64_t work = 0;
  pthread_cleanup_push(clean, (void*)5);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  sem_post(&ready);
  for (;;) work = work + 1;
  pthread_cleanup_pop(0);
  return argument;
}

static void* not_now(void* argument) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  sem_post(&ready);
  while (!atomic_load(&go_on)) {
  }
  clean((void*)6);  // cancelled by now, but not here
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  pthread_testcancel();
  clean((void*)9);
  return argument;
}

static void cancel(const char* what, void* (*run)(void*)) {
  pthread_t thread;
  void* result = NULL;
  cleaned = 0;
  atomic_store(&go_on, 0);
  REQUIRE(pthread_create(&thread, NULL, run, NULL) == 0);
  sem_wait(&ready);
  REQUIRE(pthread_cancel(thread) == 0);
  atomic_store(&go_on, 1);
  REQUIRE(pthread_join(thread, &result) == 0);
  printf("%s: %s, cleaned %d\n", what, result == PTHREAD_CANCELED ? "cancelled" : "RETURNED",
         cleaned);
}

int main(void) {
  sem_init(&ready, 0, 0);
  REQUIRE(pipe(pipe_fds) == 0);
  cancel("in read", in_read);
  cancel("in a condition variable", in_condition);
  cancel("at a test point", at_test_point);
  cancel("while computing", computing);
  cancel("while disabled", not_now);
  return 0;
}
