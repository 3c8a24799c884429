// Threads, and processes made by them: prints what does not depend on who is faster.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t total;
static atomic_uint token, passes;
static _Thread_local uint64_t own = 5;

static void* Add(void* argument) {
  const uint64_t n = (uint64_t)argument;
  for (uint64_t i = 0; i < 2000; ++i) {
    pthread_mutex_lock(&mutex);
    total += n;
    pthread_mutex_unlock(&mutex);
    own += n;
  }
  return (void*)own;
}

// Many more than there are at once.
static void ManyThreads(void) {
  uint64_t sum = 0;
  for (int round = 0; round < 20; ++round) {
    pthread_t threads[8];
    for (uint64_t i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, Add, (void*)i);
    for (int i = 0; i < 8; ++i) {
      void* result;
      pthread_join(threads[i], &result);
      sum += (uint64_t)result;
    }
  }
  printf("threads %lu %lu %lu\n", total, sum, own);
}

// Two threads hand a token to each other without system calls.
static void* Spin(void* argument) {
  const unsigned me = (unsigned)(uintptr_t)argument;
  while (1) {
    const unsigned now = atomic_load(&passes);
    if (now >= 100000) return NULL;
    if (atomic_load(&token) == me) {
      atomic_fetch_add(&passes, 1);
      atomic_store(&token, 1 - me);
    } else {
      sched_yield();
    }
  }
}

static void Token(void) {
  pthread_t threads[2];
  for (uintptr_t i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, Spin, (void*)i);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  printf("token %d\n", atomic_load(&passes) >= 100000);
}

static atomic_int signals;
static void OnSignal(int signal) { atomic_fetch_add(&signals, 1); }

static void* WaitForSignal(void* argument) {
  const int before = atomic_load(&signals);
  sem_post(argument);
  while (atomic_load(&signals) == before) usleep(1000);
  return NULL;
}

// Signals to single threads, in translated code and in system calls.
static void Signals(void) {
  signal(SIGUSR1, OnSignal);
  sem_t ready;
  sem_init(&ready, 0, 0);
  for (int i = 0; i < 50; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, WaitForSignal, &ready);
    sem_wait(&ready);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
  }
  printf("signals %d\n", atomic_load(&signals));
}

static void* Fork(void* argument) {
  const pid_t child = fork();
  if (child == 0) {
    own += 1;
    _exit(own == 6 ? 11 : 12);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return (void*)(uintptr_t)WEXITSTATUS(status);
}

static void Processes(void) {
  fflush(stdout);
  pthread_t thread;
  void* result;
  pthread_create(&thread, NULL, Fork, NULL);
  pthread_join(thread, &result);
  printf("fork in a thread %lu\n", (uint64_t)result);
  pid_t child;
  int status = 0;
  char* argv[] = {"sh", "-c", "exit 21", NULL};
  fflush(stdout);
  printf("spawn %d\n", posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ));
  waitpid(child, &status, 0);
  printf("status %d\n", WEXITSTATUS(status));
  char* nowhere[] = {"nowhere", NULL};
  printf("spawn %d\n", posix_spawn(&child, "/nowhere", NULL, NULL, nowhere, environ) == ENOENT);
  fflush(stdout);
  child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", NULL);
    _exit(1);
  }
  waitpid(child, &status, 0);
  printf("vfork %d\n", WEXITSTATUS(status));
  fflush(stdout);
  if (system("exit 4") != 4 << 8) printf("system\n");
}

static void* Cancelled(void* argument) {
  pause();
  return NULL;
}

static void* Ended(void* argument) {
  usleep(1000);
  pthread_exit((void*)77);
}

static void Ends(void) {
  pthread_t thread;
  void* result;
  pthread_create(&thread, NULL, Cancelled, NULL);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("cancelled %d\n", result == PTHREAD_CANCELED);
  pthread_create(&thread, NULL, Ended, NULL);
  pthread_join(thread, &result);
  printf("ended %lu\n", (uint64_t)result);
}

int main(void) {
  ManyThreads();
  Token();
  Signals();
  Processes();
  Ends();
  pthread_t thread;
  pthread_create(&thread, NULL, Cancelled, NULL);
  fflush(stdout);
  return 3;
}
