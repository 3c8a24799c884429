// Two threads take all signals that there are, in both ways, while a third one works.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <time.h>

#include "tests/programs/require.h"

static sigset_t all;
static volatile unsigned long work;

static void* wait_for_signals(void* argument) {
  int number = 0;
  while (number != SIGUSR2) {
    REQUIRE(sigwait(&all, &number) == 0);
    printf("waited for %d\n", number);
  }
  return argument;
}

static void* read_signals(void* argument) {
  const int file = signalfd(-1, &all, 0);
  struct signalfd_siginfo info = {.ssi_signo = 0};
  while (info.ssi_signo != SIGUSR2) {
    REQUIRE(read(file, &info, sizeof(info)) == sizeof(info));
    printf("read %d\n", (int)info.ssi_signo);
  }
  return argument;
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  pthread_t waits, reads;
  REQUIRE(pthread_create(&waits, NULL, wait_for_signals, NULL) == 0);
  REQUIRE(pthread_create(&reads, NULL, read_signals, NULL) == 0);
  const struct timespec moment = {0, 5000000};
  for (int i = 0; i < 10; ++i) {
    for (int j = 0; j < 1000000; ++j) work = work * 31 + (unsigned long)j;
    nanosleep(&moment, NULL);
  }
  pthread_kill(waits, SIGUSR2);
  pthread_join(waits, NULL);
  pthread_kill(reads, SIGUSR2);
  pthread_join(reads, NULL);
  return 0;
}
