// Starts a second thread.
#include <pthread.h>
#include <stdio.h>

static void* run(void* argument) { return argument; }

int main(void) {
  printf("before\n");
  fflush(stdout);
  pthread_t thread;
  pthread_create(&thread, NULL, run, NULL);
  pthread_join(thread, NULL);
  printf("after\n");
  return 0;
}
