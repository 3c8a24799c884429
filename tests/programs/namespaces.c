// Enters namespaces of its own (host name, processes, mounts) where that is permitted.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (unshare(CLONE_NEWUTS | CLONE_NEWPID | CLONE_NEWNS) != 0) return 0;  // not permitted here
  char name[64] = "";
  REQUIRE(sethostname("namespaces", 10) == 0 && gethostname(name, sizeof(name)) == 0);
  printf("host %s\n", name);
  const pid_t child = fork();
  if (child == 0) {
    printf("process %d, parent %d\n", getpid(), getppid());
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      printf("process %d, parent %d\n", getpid(), getppid());
      _exit(5);
    }
    int status;
    REQUIRE(waitpid(grandchild, &status, 0) == grandchild && grandchild == 2);
    printf("process %d ended with %d\n", grandchild, WEXITSTATUS(status));
    _exit(6);
  }
  int status;
  REQUIRE(waitpid(child, &status, 0) == child);
  printf("the first ended with %d\n", WEXITSTATUS(status));
  return 0;
}
