// Becomes a daemon: forks twice, leads a session, leaves its terminal; the first process waits only
// until the daemon says that it is ready.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

int main(int argc, char** argv) {
  // Where the daemon writes when everybody else has gone.
  const char* file = argc > 1 ? argv[1] : "/dev/null";
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t first_group = getpgrp();
  const pid_t child = fork();
  if (child != 0) {
    char said[100] = "";
    int status;
    close(ready[1]);
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(read(ready[0], said, sizeof(said) - 1) > 0);
    printf("intermediate ended with %d; %s\n", WEXITSTATUS(status), said);
    return 5;
  }
  close(ready[0]);
  REQUIRE(setsid() == getpid());
  const pid_t leader = getpid();
  if (fork() != 0) _exit(3);
  umask(022);
  REQUIRE(chdir("/") == 0);
  for (int fd = 0; fd < 3; fd++) {
    close(fd);
    open("/dev/null", O_RDWR);
  }
  dprintf(ready[1], "daemon: group left %d, session of its own %d", getpgrp() != first_group,
          getsid(0) == leader);
  close(ready[1]);
  const int out = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  REQUIRE(out >= 0 && write(out, "the daemon did its work\n", 24) == 24);
  return 9;
}
