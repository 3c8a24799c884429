// A thread that is not the first executes another program while the others live.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/programs/require.h"

static sem_t ready;
static char pid_before[16];

static void* computing(void* argument) {
  volatile uint64_t work = 0;
  sem_post(&ready);
  for (;;) work = work + 1;
  return argument;
}

static void* executes(void* argument) {
  sem_wait(&ready);
  printf("a thread that is%s the first executes\n", getpid() == gettid() ? "" : " not");
  fflush(stdout);
  char* const argv[] = {(char*)"thread_exec", (char*)"second life", pid_before, NULL};
  execv("/proc/self/exe", argv);
  return argument;
}

int main(int argc, char** argv) {
  if (argc == 3) {
    printf("%s: same process %d, first thread %d\n", argv[1], atoi(argv[2]) == getpid(),
           getpid() == gettid());
    return 6;
  }
  snprintf(pid_before, sizeof(pid_before), "%d", getpid());
  sem_init(&ready, 0, 0);
  pthread_t thread;
  pthread_create(&thread, NULL, computing, NULL);
  pthread_create(&thread, NULL, executes, NULL);
  pthread_join(thread, NULL);
  return 1;
}
