// Threads that hand a token over by spinning, in several ways, and count how often they had it.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { kThreads = 3, kTurns = 2000 };

static volatile int plain;
static atomic_int token;
static long count;

static int next_of(int me) { return (me + 1) % kThreads; }

// Whoever has the token may be waiting for a processor.
static void pause_after(int spins) {
  if (spins % 1000 == 999) sched_yield();
}

static void plainly(int me) {
  for (int i = 0; plain != me; ++i) pause_after(i);
  ++count;
  plain = next_of(me);
}

static void by_exchange(int me) {
  for (int i = 0; atomic_load_explicit(&token, memory_order_relaxed) != me; ++i) pause_after(i);
  ++count;
  atomic_exchange(&token, next_of(me));
}

// kThreads: somebody has it.
static void by_comparing(int me) {
  int wanted = me;
  for (int i = 0; !atomic_compare_exchange_weak(&token, &wanted, kThreads); ++i) {
    pause_after(i);
    wanted = me;
  }
  ++count;
  atomic_store(&token, next_of(me));
}

static void (*const ways[])(int) = {plainly, by_exchange, by_comparing};
static int way;

static void* run(void* argument) {
  const int me = (int)(long)argument;
  for (int i = 0; i < kTurns; ++i) ways[way](me);
  return NULL;
}

int main(int argc, char** argv) {
  way = argc > 1 ? atoi(argv[1]) : 0;
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, run, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%ld\n", count);
  return 0;
}
