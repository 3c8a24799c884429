// vfork: the child borrows the parent's memory until it executes another program or ends.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

static volatile int shared;

static int ending(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

int main(int argc, char** argv) {
  if (argc == 2) {
    dprintf(1, "%s\n", argv[1]);
    return 21;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  pid_t child = vfork();
  if (child == 0) {
    shared = 5;  // seen by the parent
    _exit(7);
  }
  printf("left 5: %d, ended with %d\n", shared, ending(child));

  child = vfork();
  if (child == 0) {
    shared = 6;
    execl("/proc/self/exe", argv[0], "executed", NULL);
    _exit(1);
  }
  printf("left 6: %d, ended with %d\n", shared, ending(child));

  child = vfork();
  if (child == 0) {
    execl("/nonexistent/program", "program", NULL);
    shared = errno;
    _exit(8);
  }
  printf("no such program: %d, ended with %d\n", shared == ENOENT, ending(child));
  return 0;
}
