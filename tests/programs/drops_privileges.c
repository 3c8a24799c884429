// Changes its user and groups as services do that start as root, and loses what they allowed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

static pthread_barrier_t changed;

// glibc changes the other threads by a signal of its own.
static void* sees_change(void* argument) {
  pthread_barrier_wait(&changed);
  pthread_barrier_wait(&changed);
  printf("other thread: user %d\n", (int)geteuid());
  return argument;
}

int main(void) {
  if (geteuid() != 0) {
    printf("not root: nothing to drop\n");
    return 0;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  pthread_barrier_init(&changed, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, sees_change, NULL);
  pthread_barrier_wait(&changed);
  REQUIRE(setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0);
  REQUIRE(setresuid(65534, 65534, 65534) == 0);
  pthread_barrier_wait(&changed);
  pthread_join(thread, NULL);
  printf("back to root: %s\n", setuid(0) == 0 ? "YES" : strerror(errno));
  printf("read what is root's: %s\n", open("/etc/shadow", O_RDONLY) >= 0 ? "YES" : strerror(errno));
  printf("dumpable %d\n", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
  const pid_t child = fork();
  if (child == 0) {
    execl("/usr/bin/id", "id", NULL);
    _exit(1);
  }
  int status;
  waitpid(child, &status, 0);
  printf("child ended with %d\n", WEXITSTATUS(status));
  return 0;
}
