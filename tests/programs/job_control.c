// A child that stops and continues, by itself, by its parent, in a call, and with two threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

static volatile sig_atomic_t continued, seen;
static volatile uint64_t steps, steps_before;
static atomic_int stop_now;
static int ready[2];  // a pipe

static void on_continue(int number) {
  (void)number;
  steps_before = steps;
  continued = 1;
}

// Only then the end cannot hide the continuation from waitpid.
static void on_seen(int number) {
  (void)number;
  seen = 1;
}

static void wait_until_seen(void) {
  while (!seen) usleep(1000);
}

static void expect(pid_t child, const char* what) {
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED | WCONTINUED) == child);
  printf("%s: ", what);
  if (WIFSTOPPED(status)) {
    printf("stopped by signal %d\n", WSTOPSIG(status));
  } else if (WIFCONTINUED(status)) {
    printf("continued\n");
    kill(child, SIGUSR1);
  } else if (WIFEXITED(status)) {
    printf("ended with %d\n", WEXITSTATUS(status));
  } else {
    printf("killed by signal %d\n", WTERMSIG(status));
  }
}

static pid_t start(void (*run)(void)) {
  fflush(stdout);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    run();
    _exit(1);
  }
  return child;
}

static void stops_itself(void) {
  signal(SIGCONT, on_continue);
  raise(SIGSTOP);
  wait_until_seen();
  _exit(continued ? 11 : 12);
}

static void stops_like_at_a_terminal(void) {
  setpgid(0, 0);
  raise(SIGTSTP);
  wait_until_seen();
  _exit(13);
}

static void computes_for_ever(void) {
  volatile uint64_t work = 0;
  for (;;) work = work + 1;
}

// The call ends with EINTR because of the stop. The handler of SIGCONT comes before anything else.
static void waits_for_events(void) {
  signal(SIGCONT, on_continue);
  REQUIRE(write(ready[1], "", 1) == 1);
  const int events = epoll_create1(0);
  struct epoll_event event;
  REQUIRE(events >= 0);
  while (!continued && epoll_wait(events, &event, 1, 1000) == 0) {
  }
  while (!continued) steps = steps + 1;
  wait_until_seen();
  _exit(steps_before == 0 ? 16 : 17);
}

static void* stops_the_process(void* argument) {
  while (!stop_now) sched_yield();
  kill(getpid(), SIGSTOP);  // either thread may be the first to see it
  wait_until_seen();
  exit(15);
  return argument;
}

static void has_two_threads(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, stops_the_process, NULL);
  stop_now = 1;
  for (;;) pause();
}

int main(void) {
  signal(SIGUSR1, on_seen);
  pid_t child = start(stops_itself);
  expect(child, "itself");
  kill(child, SIGCONT);
  expect(child, "itself");
  expect(child, "itself");

  child = start(stops_like_at_a_terminal);
  expect(child, "terminal");
  kill(child, SIGCONT);
  expect(child, "terminal");
  expect(child, "terminal");

  child = start(computes_for_ever);
  for (int i = 0; i < 3; i++) {
    kill(child, SIGSTOP);
    expect(child, "computing");
    kill(child, SIGCONT);
    expect(child, "computing");
  }
  kill(child, SIGSTOP);
  expect(child, "computing");
  kill(child, SIGKILL);  // while stopped
  expect(child, "computing");

  char byte;
  REQUIRE(pipe(ready) == 0);
  child = start(waits_for_events);
  REQUIRE(read(ready[0], &byte, 1) == 1);
  usleep(100000);  // it mostly waits then
  kill(child, SIGSTOP);
  expect(child, "waiting");
  kill(child, SIGCONT);
  expect(child, "waiting");
  expect(child, "waiting");

  child = start(has_two_threads);
  expect(child, "two threads");
  kill(child, SIGCONT);
  expect(child, "two threads");
  expect(child, "two threads");
  return 0;
}
