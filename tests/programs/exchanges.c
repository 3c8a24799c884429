// Three threads exchange numbers with one word. Between a thread's two calls of getppid it executes
// a locked instruction for each exchange, and no other. Prints of each exchange the thread, what
// the word had, and what it got, which no other exchange stores.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kThreads = 3, kMostRounds = 10000 };

static _Alignas(4096) uint64_t word[512];
static struct {
  long id;
  uint64_t had[kMostRounds];
} threads[kThreads];
static int rounds;
static pthread_barrier_t begin;

static void* exchange(void* argument) {
  const uint64_t thread = (uintptr_t)argument;
  uint32_t random = 99 + 77 * (uint32_t)thread;
  threads[thread].id = syscall(SYS_gettid);
  pthread_barrier_wait(&begin);
  getppid();
  for (int round = 0; round < rounds; round++) {
    const uint64_t mine = kThreads * (uint64_t)round + thread + 1;
    threads[thread].had[round] = __atomic_exchange_n(&word[0], mine, __ATOMIC_SEQ_CST);
    random = random * 1664525 + 1013904223;
    for (volatile uint32_t pause = random >> 16 & 0x3ff; pause > 0; pause--) continue;
  }
  getppid();
  return NULL;
}

int main(int argc, char** argv) {
  rounds = argc > 1 ? atoi(argv[1]) : 1000;
  REQUIRE(rounds <= kMostRounds);
  pthread_t ids[kThreads];
  REQUIRE(pthread_barrier_init(&begin, NULL, kThreads) == 0);
  for (uintptr_t i = 0; i < kThreads; i++) {
    REQUIRE(pthread_create(&ids[i], NULL, exchange, (void*)i) == 0);
  }
  for (int i = 0; i < kThreads; i++) REQUIRE(pthread_join(ids[i], NULL) == 0);
  for (int i = 0; i < kThreads; i++) {
    for (int round = 0; round < rounds; round++) {
      printf("%ld %lu %d\n", threads[i].id, threads[i].had[round], kThreads * round + i + 1);
    }
  }
}
