// Runs until its standard input ends, with threads that compute, sleep and wait; writes its
// progress to the file it is given. To be attached to.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "tests/programs/require.h"

static atomic_int stop;
static atomic_ullong computed, slept;
static sem_t never;
static const char* file;

static pthread_barrier_t all_named;

// Called all the time: a place for --start-at and --stop-at.
__attribute__((noinline)) uint64_t work_unit(uint64_t value) {
  for (int i = 0; i < 1000; i++) value = value * 6364136223846793005u + 1442695040888963407u;
  return value;
}

static void* computes(void* argument) {
  pthread_setname_np(pthread_self(), "computes");
  pthread_barrier_wait(&all_named);
  uint64_t value = 1;
  const struct timespec moment = {0, 100000};
  while (!stop) {
    value = work_unit(value);
    atomic_fetch_add(&computed, 1);
    nanosleep(&moment, NULL);
  }
  // Wrong if any instruction was lost, or executed twice, while a recorder was attached.
  uint64_t expected = 1;
  for (uint64_t i = 0; i < computed; i++) expected = work_unit(expected);
  REQUIRE(value == expected);
  return argument;
}

static void* sleeps(void* argument) {
  pthread_setname_np(pthread_self(), "sleeps");
  pthread_barrier_wait(&all_named);
  const struct timespec moment = {0, 10000000};
  char line[64];
  while (!stop) {
    REQUIRE(nanosleep(&moment, NULL) == 0);
    const int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    const unsigned long long number = atomic_fetch_add(&slept, 1) + 1;
    const int length = snprintf(line, sizeof(line), "step %llu\n", number);
    REQUIRE(fd >= 0 && write(fd, line, (size_t)length) == length);
    close(fd);
  }
  return argument;
}

static void* waits(void* argument) {
  pthread_setname_np(pthread_self(), "waits");
  pthread_barrier_wait(&all_named);
  while (sem_wait(&never) != 0) {
  }
  return argument;
}

int main(int argc, char** argv) {
  file = argc > 1 ? argv[1] : "/dev/null";
  sem_init(&never, 0, 0);
  pthread_barrier_init(&all_named, NULL, 4);
  pthread_t threads[3];
  void* (*const runs[])(void*) = {computes, sleeps, waits};
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, runs[i], NULL);
  pthread_barrier_wait(&all_named);
  printf("running\n");
  fflush(stdout);
  char buffer[64];
  ssize_t got;
  while ((got = read(0, buffer, sizeof(buffer))) > 0) {
  }
  REQUIRE(got == 0);
  stop = 1;
  sem_post(&never);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  printf("ended properly\n");
  return 8;
}
