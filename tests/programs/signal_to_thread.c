// Signals for one thread: pthread_kill, tgkill, sigwait, blocked and pending, and those for all.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "tests/programs/require.h"

enum { kThreads = 3 };

static _Thread_local int me;
static atomic_int handled_by[kThreads + 1][2];
static atomic_int tids[kThreads + 1];
static atomic_int done;
static sem_t ready, handled;

static void on_signal(int number) {
  atomic_fetch_add(&handled_by[me][number == SIGUSR2], 1);
  sem_post(&handled);
}

static void* computes(void* argument) {
  me = (int)(intptr_t)argument;
  tids[me] = gettid();
  volatile uint64_t work = 0;
  sem_post(&ready);
  while (!atomic_load(&done)) work = work + 1;
  return NULL;
}

static void* sleeps(void* argument) {
  me = (int)(intptr_t)argument;
  tids[me] = gettid();
  sigset_t nothing;
  sigemptyset(&nothing);
  sigset_t usr1, before;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &usr1, &before);
  sem_post(&ready);
  while (!atomic_load(&done)) sigsuspend(&before);
  return NULL;
}

static void* waits(void* argument) {
  me = (int)(intptr_t)argument;
  tids[me] = gettid();
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  sem_post(&ready);
  int number = 0, sum = 0;
  while (number != SIGTERM) {
    REQUIRE(sigwait(&set, &number) == 0);
    sum = sum * 100 + number;
    sem_post(&handled);
  }
  return (void*)(intptr_t)sum;
}

int main(void) {
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  sem_init(&ready, 0, 0);
  sem_init(&handled, 0, 0);
  pthread_t threads[kThreads + 1];
  void* (*const runs[])(void*) = {NULL, computes, sleeps, waits};
  for (int i = 1; i <= kThreads; i++) {
    pthread_create(&threads[i], NULL, runs[i], (void*)(intptr_t)i);
    while (sem_wait(&ready) != 0) {
    }
  }
  for (int round = 0; round < 10; round++) {
    for (int i = 1; i <= kThreads; i++) {
      const int number = round % 3 == 0 ? SIGUSR2 : SIGUSR1;
      if (round % 2 == 0) {
        REQUIRE(pthread_kill(threads[i], number) == 0);
      } else {
        REQUIRE(syscall(SYS_tgkill, getpid(), tids[i], number) == 0);
      }
      while (sem_wait(&handled) != 0) {
      }
    }
  }
  // For the process: only one thread lets it through.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  struct sigaction terminate = {.sa_handler = SIG_IGN};
  sigaction(SIGCHLD, &terminate, NULL);
  REQUIRE(pthread_kill(threads[3], SIGTERM) == 0);
  void* sum;
  pthread_join(threads[3], &sum);
  atomic_store(&done, 1);
  pthread_kill(threads[2], SIGUSR1);
  pthread_join(threads[1], NULL);
  pthread_join(threads[2], NULL);
  for (int i = 1; i < kThreads; i++) {
    printf("thread %d: SIGUSR1 %d, SIGUSR2 %d\n", i, handled_by[i][0], handled_by[i][1]);
  }
  printf("waited: %u\n", (unsigned)(uintptr_t)sum);

  // Pending in this thread until unblocked; then handled before the call returns.
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &usr1, NULL);
  pthread_kill(pthread_self(), SIGUSR1);
  sigset_t pending;
  sigpending(&pending);
  const int before = handled_by[0][0];
  pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
  printf("pending %d, handled %d then %d\n", sigismember(&pending, SIGUSR1), before,
         handled_by[0][0]);
  return 0;
}
