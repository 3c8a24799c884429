// Job control stops and continues a process of three threads, again and again: one computes, one
// sleeps and wakes, one waits. Whichever thread takes the signal, all of them stop.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

#define ROUNDS 12

static void on_end(int number) {
  (void)number;
  _exit(7);
}

static void* computes(void* argument) {
  REQUIRE(write(*(int*)argument, "c", 1) == 1);
  for (volatile uint64_t work = 0;; work = work + 1) {
  }
  return NULL;
}

static void* sleeps(void* argument) {
  REQUIRE(write(*(int*)argument, "s", 1) == 1);
  for (;;) usleep(500);
  return NULL;
}

static pid_t start(void) {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  fflush(stdout);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // A group of its own with its parent in another of the same session: SIGTSTP stops it.
    setpgid(0, 0);
    pthread_t threads[2];
    REQUIRE(pthread_create(&threads[0], NULL, computes, &ready[1]) == 0);
    REQUIRE(pthread_create(&threads[1], NULL, sleeps, &ready[1]) == 0);
    for (;;) pause();
  }
  char bytes[2];
  for (int i = 0; i < 2; i++) REQUIRE(read(ready[0], &bytes[i], 1) == 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

static void expect_stop(pid_t child, int signal) {
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED) == child);
  REQUIRE(WIFSTOPPED(status) && WSTOPSIG(status) == signal);
}

static void expect_continued(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, WCONTINUED) == child);
  REQUIRE(WIFCONTINUED(status));
}

static void stop_and_continue(pid_t child, int signal) {
  for (int i = 0; i < ROUNDS; i++) {
    kill(child, signal);
    expect_stop(child, signal);
    kill(child, SIGCONT);
    expect_continued(child);
  }
  printf("stopped by signal %d and continued: %d times\n", signal, ROUNDS);
}

// The threads are still being woken when it is stopped again.
static void stop_at_once_after_continuing(pid_t child) {
  kill(child, SIGSTOP);
  expect_stop(child, SIGSTOP);
  for (int i = 0; i < ROUNDS; i++) {
    kill(child, SIGCONT);
    kill(child, SIGTSTP);
    expect_stop(child, SIGTSTP);
  }
  kill(child, SIGCONT);
  expect_continued(child);
  printf("stopped again: %d times\n", ROUNDS);
}

int main(void) {
  struct sigaction action = {.sa_handler = on_end};
  sigaction(SIGUSR1, &action, NULL);
  const pid_t child = start();
  stop_and_continue(child, SIGSTOP);
  stop_and_continue(child, SIGTSTP);
  stop_at_once_after_continuing(child);
  kill(child, SIGUSR1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  printf("ended with %d\n", WEXITSTATUS(status));
  return 0;
}
