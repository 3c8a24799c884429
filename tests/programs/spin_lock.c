// Threads hand a turn to each other by spinning on a variable, without system calls.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

enum { kThreads = 3, kRounds = 20 };

static atomic_int turn;
static volatile int plain_flag;
static int history;

static void* run(void* argument) {
  const int me = (int)(intptr_t)argument;
  for (int i = 0; i < kRounds; i++) {
    while (atomic_load_explicit(&turn, memory_order_acquire) != me) __builtin_ia32_pause();
    history = history * 5 + me;
    atomic_store_explicit(&turn, (me + 1) % kThreads, memory_order_release);
  }
  return NULL;
}

// Not even an atomic variable: an ordinary load, repeated.
static void* waits_for_flag(void* argument) {
  while (plain_flag == 0) {
  }
  history = history * 5 + plain_flag;
  return argument;
}

int main(void) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) {
    pthread_create(&threads[i], NULL, run, (void*)(intptr_t)i);
  }
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  printf("%08x\n", (unsigned)history);
  pthread_create(&threads[0], NULL, waits_for_flag, NULL);
  for (volatile int i = 0; i < 100000; i++) {
  }
  plain_flag = 4;
  pthread_join(threads[0], NULL);
  printf("%08x\n", (unsigned)history);
  return 0;
}
