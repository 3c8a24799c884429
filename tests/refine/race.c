// Four threads race: which of them comes first, and how often an unlocked sum loses, depends on
// chance.

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "libhindsight/hindsight.h"

enum { kThreads = 4 };

uint32_t order[kThreads];  // who came first, second, ...
uint32_t first;
static atomic_uint arrived;
static pthread_barrier_t start;

static void* run(void* argument) {
  pthread_barrier_wait(&start);
  order[atomic_fetch_add(&arrived, 1)] = (uint32_t)(size_t)argument;
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  pthread_barrier_init(&start, NULL, kThreads);
  hs_snapshot("before");
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, run, (void*)i);
  for (size_t i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  first = order[0];
  hs_breakpoint(1, 2, 3, 0, HS_ATTRIBUTES({"at", "end"}));
  printf("%u %u %u %u\n", order[0], order[1], order[2], order[3]);
  return 0;
}
