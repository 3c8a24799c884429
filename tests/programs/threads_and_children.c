// Threads that hand a lock around and map memory, that make threads, and that make processes, all
// at once.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kWorkers = 3, kRounds = 2000, kChildren = 6, kThreads = 30, kBytes = 1 << 16 };

extern char** environ;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int shared;

static void* work(void* argument) {
  for (int i = 0; i < kRounds; ++i) {
    pthread_mutex_lock(&mutex);
    shared += 1;
    pthread_mutex_unlock(&mutex);
    void* memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    memset(memory, i, kBytes);
    munmap(memory, kBytes);
    if (i % 500 == 0) usleep(1000);
  }
  return argument;
}

static void* make_children(void* argument) {
  for (int i = 0; i < kChildren; ++i) {
    pid_t child;
    char* const argv[] = {(char*)"true", NULL};
    REQUIRE(posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ) == 0);
    waitpid(child, NULL, 0);
    child = fork();
    if (child == 0) {
      volatile int sum = 0;
      for (int k = 0; k < 300000; ++k) sum += k;
      _exit(sum & 1);
    }
    waitpid(child, NULL, 0);
  }
  return argument;
}

static void* nap(void* argument) {
  usleep(100);
  return argument;
}

static void* make_threads(void* argument) {
  for (int i = 0; i < kThreads; ++i) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, nap, NULL) == 0);
    pthread_join(thread, NULL);
  }
  return argument;
}

int main(void) {
  pthread_t threads[kWorkers + 2];
  for (int i = 0; i < kWorkers + 2; ++i) {
    void* (*const body)(void*) = i < kWorkers ? work : i == kWorkers ? make_children : make_threads;
    REQUIRE(pthread_create(&threads[i], NULL, body, NULL) == 0);
  }
  for (int i = 0; i < kWorkers + 2; ++i) pthread_join(threads[i], NULL);
  printf("%d\n", shared);
  return 0;
}
