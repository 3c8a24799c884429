// Threads with names, one of which changes, met at a function that a debugger can stop at.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>

static pthread_barrier_t step;

// All threads of a round are alive, in wait().
void round_reached(int round) { printf("round %d\n", round); }

static void wait_for_all(void) { pthread_barrier_wait(&step); }

static void* run(void* argument) {
  char name[16], read_back[16];
  snprintf(name, sizeof(name), "worker %d", (int)(intptr_t)argument);
  pthread_setname_np(pthread_self(), name);
  prctl(PR_GET_NAME, read_back);
  wait_for_all();
  wait_for_all();
  if (argument == (void*)2) prctl(PR_SET_NAME, "renamed");
  wait_for_all();
  wait_for_all();
  return NULL;
}

int main(void) {
  pthread_t threads[3];
  char name[16];
  pthread_barrier_init(&step, NULL, 4);
  for (int i = 0; i < 3; i++) {
    pthread_create(&threads[i], NULL, run, (void*)(intptr_t)(i + 1));
  }
  for (int round = 1; round <= 2; round++) {
    wait_for_all();
    round_reached(round);
    for (int i = 0; i < 3; i++) {
      pthread_getname_np(threads[i], name, sizeof(name));
      printf("%s\n", name);
    }
    wait_for_all();
  }
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  return 0;
}
