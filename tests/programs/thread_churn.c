// Ten thousand short threads (or as many as the argument says), joined and detached.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/programs/require.h"

enum { kAtOnce = 4 };

static atomic_int detached_done;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done = PTHREAD_COND_INITIALIZER;

static void* joined(void* argument) { return (void*)((uintptr_t)argument * 3); }

static void* detached(void* argument) {
  pthread_mutex_lock(&mutex);
  atomic_fetch_add(&detached_done, 1);
  pthread_cond_signal(&done);
  pthread_mutex_unlock(&mutex);
  return argument;
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 10000;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 65536);
  uint64_t sum = 0;
  int made_detached = 0;
  for (int made = 0; made < count; made += kAtOnce) {
    pthread_t threads[kAtOnce];
    for (int i = 0; i < kAtOnce; i++) {
      const int last = i == kAtOnce - 1;  // the one that is never joined
      REQUIRE(pthread_create(&threads[i], &attributes, last ? detached : joined,
                             (void*)(uintptr_t)(made + i)) == 0);
      if (last) made_detached++;
    }
    pthread_detach(threads[kAtOnce - 1]);
    for (int i = 0; i < kAtOnce - 1; i++) {
      void* result;
      REQUIRE(pthread_join(threads[i], &result) == 0);
      sum += (uintptr_t)result;
    }
    // So that no more than a few live at once.
    pthread_mutex_lock(&mutex);
    while (detached_done < made_detached) pthread_cond_wait(&done, &mutex);
    pthread_mutex_unlock(&mutex);
  }
  printf("sum %llu, detached %d\n", (unsigned long long)sum, detached_done);
  return 0;
}
