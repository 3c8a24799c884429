// Makes a child that is not reported to a tracer.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

int main(void) {
  const long child = syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, NULL, NULL, NULL, 0);
  if (child == 0) _exit(3);
  int status = 0;
  REQUIRE(waitpid((pid_t)child, &status, 0) == child);
  printf("the child exited with %d\n", WEXITSTATUS(status));
  return 0;
}
