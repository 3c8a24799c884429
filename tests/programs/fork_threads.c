// Forks while other threads run: the child has only the thread that forked, and can make new ones.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

static atomic_int stop, running;
static atomic_ullong work;
static int prepared, in_parent, in_child;
static _Thread_local int mine;

static void* computes(void* argument) {
  atomic_fetch_add(&running, 1);
  while (!stop) {
    // The allocator's locks are held now and then when the others fork.
    free(malloc(100 + work % 1000));
    atomic_fetch_add(&work, 1);
  }
  return argument;
}

static void* adds(void* argument) {
  mine = 100;
  return (void*)((intptr_t)argument + mine);
}

static int count_threads(void) {
  DIR* tasks = opendir("/proc/self/task");
  int count = 0;
  for (struct dirent* entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static void on_prepare(void) { prepared++; }
static void on_parent(void) { in_parent++; }
static void on_child(void) { in_child++; }

static void* forks(void* argument) {
  mine = 7;
  for (int i = 0; i < 3; i++) {
    const pid_t child = fork();
    if (child == 0) {
      // The others are gone; their memory is still there, as it was.
      const unsigned long long before = work;
      pthread_t thread;
      void* sum = NULL;
      REQUIRE(pthread_create(&thread, NULL, adds, (void*)(intptr_t)i) == 0);
      pthread_join(thread, &sum);
      free(malloc(100000));
      REQUIRE(work == before && mine == 7 && in_child == 1);
      _exit((int)(intptr_t)sum + (count_threads() == 1 ? 50 : 0));
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    printf("child ended with %d\n", WEXITSTATUS(status));
  }
  return argument;
}

int main(void) {
  pthread_atfork(on_prepare, on_parent, on_child);
  pthread_t threads[3];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, computes, NULL);
  while (running < 2) sched_yield();
  pthread_create(&threads[2], NULL, forks, NULL);
  pthread_join(threads[2], NULL);
  stop = 1;
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  printf("prepared %d, parent %d, child %d\n", prepared, in_parent, in_child);
  return 0;
}
