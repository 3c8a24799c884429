// A child outlives its parent and gets another one.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  const pid_t top = getpid();
  const pid_t parent = fork();
  if (parent == 0) {
    if (fork() == 0) {
      while (getppid() != top) usleep(500);
      printf("orphan: adopted\n");
      _exit(17);
    }
    _exit(16);
  }
  int status;
  REQUIRE(waitpid(parent, &status, 0) == parent);
  const int first = WEXITSTATUS(status);
  REQUIRE(wait(&status) > 0);
  printf("parent %d, orphan %d\n", first, WEXITSTATUS(status));
  return 0;
}
