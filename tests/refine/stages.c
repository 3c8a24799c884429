// Works in five stages with three threads, and says after each what it has: files, a pipe,
// thread-local variables, signals, vector registers. Snapshots at each stage. What it prints does
// not depend on time.
//
// stages INPUT OUTPUT

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhindsight/hindsight.h"

enum { kThreads = 3, kStages = 5 };

uint64_t factor = 3;
static uint64_t sums[kThreads];
static __thread uint64_t rounds;
static pthread_barrier_t begin, end;
static volatile sig_atomic_t signals_seen;
static volatile int on_own_stack;
static char signal_stack[65536];

static void on_signal(int number) {
  char here;
  (void)number;
  on_own_stack = &here >= signal_stack && &here < signal_stack + sizeof(signal_stack);
  ++signals_seen;
}

static void* work(void* argument) {
  const size_t index = (size_t)argument;
  char name[16];
  snprintf(name, sizeof(name), "worker%zu", index);
  pthread_setname_np(pthread_self(), name);
  for (int stage = 1; stage <= kStages; ++stage) {
    pthread_barrier_wait(&begin);
    ++rounds;
    for (uint64_t i = 0; i < 100000; ++i) sums[index] = sums[index] * factor + i + rounds;
    pthread_barrier_wait(&end);
  }
  prctl(PR_GET_NAME, name);
  return strdup(name);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  pthread_t threads[kThreads];
  int ends[2];
  double fraction = 0.5;
  char line[64];
  setvbuf(stdout, NULL, _IOLBF, 0);
  FILE* input = fopen(argv[1], "r");
  const int output = open(argv[2], O_CREAT | O_TRUNC | O_WRONLY, 0600);
  const int counter = eventfd(0, 0);
  if (input == NULL || output < 0 || pipe(ends) != 0) return 3;
  umask(027);
  const stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof(signal_stack)};
  sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR2, &action, NULL);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  pthread_barrier_init(&begin, NULL, kThreads + 1);
  pthread_barrier_init(&end, NULL, kThreads + 1);
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, work, (void*)i);
  sigprocmask(SIG_BLOCK, &blocked, NULL);
  if (write(ends[1], "unread", 6) != 6) return 3;
  raise(SIGUSR2);
  for (int stage = 1; stage <= kStages; ++stage) {
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    fraction = fraction * 1.25 + stage;
    const uint64_t one = 1;
    if (write(counter, &one, sizeof(one)) != sizeof(one)) return 3;
    if (fgets(line, sizeof(line), input) == NULL) return 3;
    printf("stage %d: %llx %llx %llx %.6f %s", stage, (unsigned long long)sums[0],
           (unsigned long long)sums[1], (unsigned long long)sums[2], fraction, line);
    dprintf(output, "stage %d\n", stage);
    hs_snapshot("stage");
  }
  for (size_t i = 0; i < kThreads; ++i) {
    void* name = NULL;
    const int error = pthread_kill(threads[i], 0);
    pthread_join(threads[i], &name);
    printf("%s %s\n", (char*)name, error == 0 || error == ESRCH ? "ended" : strerror(error));
    free(name);
  }
  printf("pending until here: %d\n", signals_seen);
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  printf("signals: %d, on a stack of its own: %d\n", signals_seen, on_own_stack);
  uint64_t count = 0;
  if (read(counter, &count, sizeof(count)) != sizeof(count)) return 3;
  close(ends[1]);
  const ssize_t length = read(ends[0], line, sizeof(line));
  printf("count %llu, pipe %.*s, umask %o\n", (unsigned long long)count, (int)length, line,
         umask(0));
  printf("break %d\n", sbrk(4096) != (void*)-1);
  return 7;
}
