// Threads that get random bytes from the kernel and add them up, which no trace can compress:
// "churn THREADS ROUNDS END", each round 64 KiB. Then it ends: by exit status END, or by signal
// -END.

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

static long rounds;
static uint64_t table[1 << 15];  // changes slowly
static volatile uint64_t sum;

static void* Work(void* argument) {
  const long own = rounds;
  static __thread uint8_t bytes[64 << 10];
  uint64_t total = (uintptr_t)argument;
  for (long round = 0; round < own; ++round) {
    for (size_t done = 0; done < sizeof(bytes);) {
      const ssize_t got = getrandom(bytes + done, sizeof(bytes) - done, 0);
      if (got > 0) done += (size_t)got;
    }
    for (size_t i = 0; i < sizeof(bytes); i += 8) total += bytes[i];
    table[(total * 7) % (sizeof(table) / 8)] = total;
  }
  __atomic_fetch_add(&sum, total, __ATOMIC_SEQ_CST);
  return NULL;
}

// Waits for as long as the program runs.
static void* Wait(void* argument) {
  char byte;
  while (read(*(int*)argument, &byte, 1) > 0) {
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const long threads = atol(argv[1]);
  rounds = atol(argv[2]);
  const int end = atoi(argv[3]);
  int ends[2];
  if (pipe(ends) != 0) return 2;
  pthread_t waits;
  pthread_create(&waits, NULL, &Wait, &ends[0]);
  // Threads come and go; the first lives on.
  for (int generation = 0; generation < 4; ++generation) {
    pthread_t ids[16];
    for (long i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, &Work, (void*)i);
    for (long i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  }
  if (argc > 4) {
    // Also a child, which does the same.
    const pid_t child = fork();
    if (child == 0) {
      Work(NULL);
      _exit(0);
    }
    waitpid(child, NULL, 0);
    Work(NULL);
  }
  close(ends[1]);
  pthread_join(waits, NULL);
  printf("done %d\n", end);
  fflush(stdout);
  if (end < 0) kill(getpid(), -end);
  return end;
}
