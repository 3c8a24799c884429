// Forbids itself to read the time-stamp counter, tries to all the same, in this thread and in one
// it makes, and allows it again.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <x86intrin.h>

#include "tests/programs/require.h"

static sigjmp_buf after_fault;

static void on_fault(int number) { siglongjmp(after_fault, number); }

static void try_to_read(const char* who) {
  unsigned processor;
  int number = sigsetjmp(after_fault, 1);
  if (number == 0) __rdtsc();
  printf("%s: rdtsc %s\n", who, number == SIGSEGV ? "faults" : "works");
  number = sigsetjmp(after_fault, 1);
  if (number == 0) __rdtscp(&processor);
  printf("%s: rdtscp %s\n", who, number == SIGSEGV ? "faults" : "works");
}

static void* thread(void* argument) {
  try_to_read("a thread");
  return argument;
}

int main(void) {
  signal(SIGSEGV, on_fault);
  try_to_read("at first");
  REQUIRE(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
  try_to_read("forbidden");
  pthread_t other;
  REQUIRE(pthread_create(&other, NULL, thread, NULL) == 0);
  pthread_join(other, NULL);
  REQUIRE(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
  try_to_read("allowed again");
  return 0;
}
