// Three threads store small numbers to words under a lock, and never read them: what each of them
// sees of a word is what it stored there last. Prints all stores, in their order: word, number,
// thread.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { kThreads = 3, kRounds = 150, kWords = 4 };

static _Alignas(4096) volatile int words[1024];  // with nothing beside them that is read
static struct { int word, number, thread; } log_of_stores[kThreads * kRounds];
static int length;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin;

__attribute__((noinline)) void start(void) { __asm__ volatile("" ::: "memory"); }
__attribute__((noinline)) void done(void) { __asm__ volatile("" ::: "memory"); }

static void* store(void* argument) {
  const int thread = (int)(intptr_t)argument;
  uint32_t random = 12345 + 77 * thread;
  pthread_barrier_wait(&begin);
  for (int round = 0; round < kRounds; round++) {
    random = random * 1664525 + 1013904223;
    const int word = random >> 30, number = (random >> 24) & 3;
    pthread_mutex_lock(&lock);
    words[word] = number;
    log_of_stores[length].word = word;
    log_of_stores[length].number = number;
    log_of_stores[length].thread = thread;
    length++;
    pthread_mutex_unlock(&lock);
    for (volatile uint32_t pause = (random >> 12) & 0xfff; pause > 0; pause--) continue;
  }
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  pthread_barrier_init(&begin, NULL, kThreads);
  start();
  for (intptr_t i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, store, (void*)i);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  done();
  for (int i = 0; i < length; i++) {
    printf("%d %d %d\n", log_of_stores[i].word, log_of_stores[i].number, log_of_stores[i].thread);
  }
  return 0;
}
