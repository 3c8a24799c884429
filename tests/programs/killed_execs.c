// Kills its children at moments nobody has chosen: most while they execute a program. It learns of
// the end of each.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

enum { kChildren = 90 };

static void* wait_for_end(void* argument) {
  pause();
  return argument;
}

static pid_t start(int number) {
  const pid_t child = number % 3 == 2 ? vfork() : fork();
  REQUIRE(child >= 0);
  if (child > 0) return child;
  pthread_t thread;
  if (number % 3 == 1) pthread_create(&thread, NULL, wait_for_end, NULL);
  execl("/bin/true", "true", NULL);
  _exit(1);
}

int main(void) {
  unsigned seed = 1;
  int ended = 0;
  for (int i = 0; i < kChildren; ++i) {
    const pid_t child = start(i);
    usleep(rand_r(&seed) % (i % 2 == 0 ? 3000 : 12000));
    kill(child, SIGKILL);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    const int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    ended += killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  printf("%d\n", ended);
  return 0;
}
