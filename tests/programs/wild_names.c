// Threads and a program whose names a terminal would obey, and that are no UTF-8.

#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "tests/programs/require.h"

static pthread_barrier_t barrier;

static void* Named(void* name) {
  REQUIRE(prctl(PR_SET_NAME, name) == 0);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}

void all_named(void) { puts("named"); }

int main(void) {
  static const char* kNames[] = {"\033[31mred\033]0;x\a", "\377\376\200\303(", "<&\"'>\001\n]]>",
                                 "\302\2331m\342\200\256"};
  enum { kCount = sizeof(kNames) / sizeof(kNames[0]) };
  pthread_t threads[kCount];
  pthread_barrier_init(&barrier, NULL, kCount + 1);
  for (int i = 0; i < kCount; ++i) {
    REQUIRE(pthread_create(&threads[i], NULL, Named, (void*)kNames[i]) == 0);
  }
  pthread_barrier_wait(&barrier);
  all_named();
  pthread_barrier_wait(&barrier);
  for (int i = 0; i < kCount; ++i) pthread_join(threads[i], NULL);
  return 0;
}
