// Threads bombard each other with signals while they compute. Real-time signals are all counted.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/programs/require.h"

enum { kThreads = 4, kEach = 200 };

static pthread_t threads[kThreads];
static pthread_barrier_t start;
static atomic_int standard_sent, standard_handled, queued_sent, queued_handled, values;
static atomic_int finished;
static atomic_uint wrong;

static void on_standard(int number) {
  (void)number;
  atomic_fetch_add(&standard_handled, 1);
}

static void on_queued(int number, siginfo_t* info, void* context) {
  (void)context;
  if (info->si_code != SI_QUEUE || info->si_signo != number) atomic_fetch_add(&wrong, 1);
  atomic_fetch_add(&values, info->si_value.sival_int);
  atomic_fetch_add(&queued_handled, 1);
}

static void* run(void* argument) {
  const int me = (int)(intptr_t)argument;
  pthread_barrier_wait(&start);
  uint64_t sum = 0;
  for (int i = 0; i < kEach; i++) {
    const int to = (me + 1 + i % (kThreads - 1)) % kThreads;
    if (i % 2 == 0) {
      REQUIRE(pthread_kill(threads[to], i % 4 == 0 ? SIGUSR1 : SIGUSR2) == 0);
      atomic_fetch_add(&standard_sent, 1);
    } else {
      const union sigval value = {.sival_int = i};
      while (pthread_sigqueue(threads[to], SIGRTMIN + i % 3, value) != 0) sched_yield();
      atomic_fetch_add(&queued_sent, 1);
    }
    for (int j = 0; j < 200; j++) {
      sum = sum * 6364136223846793005u + 1442695040888963407u;
    }
  }
  atomic_fetch_add(&finished, 1);
  while (finished < kThreads || queued_handled < queued_sent) sched_yield();
  return (void*)(uintptr_t)(sum >> 32);
}

int main(void) {
  struct sigaction action = {.sa_handler = on_standard, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  action.sa_sigaction = on_queued;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (int i = 0; i < 3; i++) sigaction(SIGRTMIN + i, &action, NULL);
  pthread_barrier_init(&start, NULL, kThreads + 1);
  for (int i = 0; i < kThreads; i++) {
    pthread_create(&threads[i], NULL, run, (void*)(intptr_t)i);
  }
  pthread_barrier_wait(&start);
  uintptr_t sums = 0;
  for (int i = 0; i < kThreads; i++) {
    void* result;
    pthread_join(threads[i], &result);
    sums += (uintptr_t)result;
  }
  // Standard signals that are pending already are not queued again.
  printf("standard: %d sent, %s\n", standard_sent,
         standard_handled > 0 && standard_handled <= standard_sent ? "handled" : "LOST");
  printf("queued: %d sent, %d handled, values %d, wrong %u, sums %llx\n", queued_sent,
         queued_handled, values, wrong, (unsigned long long)sums);
  return 0;
}
