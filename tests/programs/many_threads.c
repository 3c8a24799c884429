// Sixty-four threads, all alive at once, each with variables of its own.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/programs/require.h"

enum { kThreads = 64 };

static pthread_barrier_t all_alive, all_done;
static _Thread_local uint32_t mine;
static uint32_t* addresses[kThreads];
static uint32_t results[kThreads];

static void* run(void* argument) {
  const int me = (int)(intptr_t)argument;
  addresses[me] = &mine;
  pthread_barrier_wait(&all_alive);
  mine = (uint32_t)me + 1;
  for (int i = 0; i < 2000; i++) mine = mine * 1664525 + 1013904223;
  pthread_barrier_wait(&all_done);
  // Someone else's variable, while its thread still lives.
  results[me] = mine ^ *addresses[(me + 1) % kThreads];
  pthread_barrier_wait(&all_alive);
  return (void*)(uintptr_t)mine;
}

int main(void) {
  pthread_t threads[kThreads];
  pthread_barrier_init(&all_alive, NULL, kThreads);
  pthread_barrier_init(&all_done, NULL, kThreads);
  for (int i = 0; i < kThreads; i++) {
    REQUIRE(pthread_create(&threads[i], NULL, run, (void*)(intptr_t)i) == 0);
  }
  uint32_t returned = 0, neighbours = 0;
  for (int i = 0; i < kThreads; i++) {
    void* result;
    pthread_join(threads[i], &result);
    returned = returned * 31 + (uint32_t)(uintptr_t)result;
    neighbours = neighbours * 31 + results[i];
  }
  printf("%08x %08x\n", returned, neighbours);
  return 0;
}
