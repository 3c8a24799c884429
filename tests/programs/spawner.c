// Starts itself again with posix_spawn: redirected, in a group of its own, with another
// environment.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

static int spawned(char** argv) {
  char line[100] = "";
  const char* seen = getenv("SPAWNER");
  sigset_t mask;
  sigprocmask(SIG_BLOCK, NULL, &mask);
  if (fgets(line, sizeof(line), stdin) == NULL) line[0] = '\0';
  printf("spawned %s, leads its group: %d, blocks SIGUSR1: %d, environment %s, input %s", argv[1],
         getpgrp() == getpid(), sigismember(&mask, SIGUSR1), seen != NULL ? seen : "none", line);
  return 30 + atoi(argv[1]);
}

int main(int argc, char** argv) {
  if (argc == 2) return spawned(argv);
  for (int i = 0; i < 4; i++) {
    int in[2], out[2];
    REQUIRE(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t mask;
    sigemptyset(&mask);
    if (i >= 2) sigaddset(&mask, SIGUSR1);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | (i % 2 ? POSIX_SPAWN_SETPGROUP : 0));
    char number[2] = {(char)('0' + i), '\0'};
    char* const child_argv[] = {argv[0], number, NULL};
    char* const environment[] = {(char*)"SPAWNER=given", NULL};
    char* const no_environment[] = {NULL};
    pid_t child;
    REQUIRE(posix_spawn(&child, "/proc/self/exe", &actions, &attributes, child_argv,
                        i == 3 ? no_environment : environment) == 0);
    dprintf(in[1], "line %d\n", i);
    close(in[1]);
    close(out[1]);
    char answer[200];
    ssize_t got, length = 0;
    while ((got = read(out[0], answer + length, sizeof(answer) - (size_t)length)) > 0) {
      length += got;
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    printf("%.*sended with %d\n", (int)length, answer, WEXITSTATUS(status));
    close(in[0]);
    close(out[0]);
  }
  pid_t child;
  char* const nothing[] = {(char*)"x", NULL};
  printf("missing program: error %d\n",
         posix_spawn(&child, "/nonexistent/program", NULL, NULL, nothing, nothing));
  return 0;
}
