// The ways a process with threads ends. The argument says which: main_first, return, exit_group,
// exit_elsewhere, signal_elsewhere.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/require.h"

static sem_t ready;
static int pipe_fds[2];
static const char* way;
static pthread_t main_thread;

static void* in_read(void* argument) {
  char byte;
  sem_post(&ready);
  REQUIRE(read(pipe_fds[0], &byte, 1) == 2);  // comes back never
  return argument;
}

static void* in_sleep(void* argument) {
  const struct timespec long_time = {1000, 0};
  sem_post(&ready);
  nanosleep(&long_time, NULL);
  return argument;
}

static void* in_futex(void* argument) {
  sem_t never;
  sem_init(&never, 0, 0);
  sem_post(&ready);
  sem_wait(&never);
  return argument;
}

static void* computing(void* argument) {
  volatile uint64_t work = 0;
  sem_post(&ready);
  for (;;) work = work + 1;
  return argument;
}

static void* ends_it(void* argument) {
  if (strcmp(way, "exit_elsewhere") == 0) exit(4);
  if (strcmp(way, "signal_elsewhere") == 0) raise(SIGTERM);
  return argument;
}

static void* survives_main(void* argument) {
  REQUIRE(pthread_join(main_thread, NULL) == 0);
  printf("main has ended\n");
  return argument;
}

int main(int argc, char** argv) {
  way = argc > 1 ? argv[1] : "main_first";
  main_thread = pthread_self();
  setvbuf(stdout, NULL, _IOLBF, 0);
  sem_init(&ready, 0, 0);
  REQUIRE(pipe(pipe_fds) == 0);
  pthread_t thread;
  if (strcmp(way, "main_first") == 0) {
    pthread_create(&thread, NULL, survives_main, NULL);
    pthread_exit(NULL);
  }
  void* (*const others[])(void*) = {in_read, in_sleep, in_futex, computing};
  for (int i = 0; i < 4; i++) pthread_create(&thread, NULL, others[i], NULL);
  for (int i = 0; i < 4; i++) sem_wait(&ready);
  printf("four others are there\n");
  if (strcmp(way, "return") == 0) return 3;
  if (strcmp(way, "exit_group") == 0) syscall(SYS_exit_group, 5);
  pthread_create(&thread, NULL, ends_it, NULL);
  for (;;) pause();
}
