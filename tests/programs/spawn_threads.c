// Several threads start programs, in all ways, at the same time.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kThreads = 4, kRounds = 12 };

extern char** environ;
static int statuses[3];

static void add(pid_t child, int* sum) {
  int status;
  REQUIRE(child > 0);
  REQUIRE(waitpid(child, &status, 0) == child);
  __atomic_fetch_add(sum, WEXITSTATUS(status), __ATOMIC_RELAXED);
}

static void* start_programs(void* argument) {
  char* const command[] = {"false", NULL};
  for (int i = 0; i < kRounds; ++i) {
    pid_t child;
    REQUIRE(posix_spawn(&child, "/bin/false", NULL, NULL, command, environ) == 0);
    add(child, &statuses[0]);
    child = vfork();
    if (child == 0) {
      execl("/bin/false", "false", (char*)NULL);
      _exit(99);
    }
    add(child, &statuses[1]);
    child = vfork();
    if (child == 0) {
      execl("/nonexistent", "nothing", (char*)NULL);
      _exit(9);
    }
    add(child, &statuses[2]);
  }
  return argument;
}

int main(void) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    REQUIRE(pthread_create(&threads[i], NULL, start_programs, NULL) == 0);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("spawned %d, executed %d, not executed %d\n", statuses[0], statuses[1], statuses[2]);
  return 0;
}
