// The first process of a process namespace dies of a fault, which the kernel spares it while it is
// traced.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

static char stack[64 << 10];

static int first(void* argument) {
  (void)argument;
  if (fork() == 0) {
    for (;;) pause();
  }
  *(volatile int*)8 = 1;
  return 0;
}

int main(void) {
  const pid_t child = clone(first, stack + sizeof(stack), CLONE_NEWPID | SIGCHLD, NULL);
  if (child < 0) return 0;  // not permitted here
  int status;
  REQUIRE(waitpid(child, &status, 0) == child);
  printf("the first process died of signal %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return 0;
}
