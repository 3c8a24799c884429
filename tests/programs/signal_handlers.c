// Handlers: nested, on alternate stacks, restarting calls or not, once only, and their masks.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "tests/programs/require.h"

static volatile int depth, deepest, order;
static char* volatile alternate;
static volatile int on_alternate;
static int pipe_fds[2];
static volatile int never_zero = 1;

static void install(int number, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(number, &action, NULL);
}

enum { kDeepest = 4 };
static const int kSignals[kDeepest] = {SIGUSR1, SIGUSR2, SIGWINCH, SIGURG};

static void nests(int number) {
  (void)number;
  if (++depth > deepest) deepest = depth;
  order = order * 10 + depth;
  if (depth < kDeepest) raise(kSignals[depth]);
  order = order * 10 + depth;
  depth--;
}

static void recurses(int number) {
  if (++depth > deepest) deepest = depth;
  if (depth < 5) raise(number);  // at once: the signal is not blocked meanwhile
  depth--;
}

static void writes_pipe(int number) {
  (void)number;
  REQUIRE(write(pipe_fds[1], "s", 1) == 1);
}

static void does_nothing(int number) { (void)number; }

static void looks_at_stack(int number) {
  (void)number;
  char here;
  on_alternate = &here >= alternate && &here < alternate + 65536;
}

static void use_alternate_stack(void) {
  alternate = malloc(65536);
  const stack_t stack = {.ss_sp = alternate, .ss_size = 65536};
  REQUIRE(sigaltstack(&stack, NULL) == 0);
}

static void* thread_with_alternate_stack(void* argument) {
  use_alternate_stack();
  on_alternate = 0;
  raise(SIGUSR1);
  printf("thread: on the alternate stack: %d\n", on_alternate);
  return argument;
}

static void* never_ending(void* argument) {
  // Every call needs stack: the guard page comes, and only the alternate stack is left.
  volatile char block[4096];
  block[0] = (char)(intptr_t)argument;
  if (never_zero == 0) return argument;
  return (char*)never_ending((void*)&block) + block[0];
}

static void on_overflow(int number) {
  looks_at_stack(number);
  printf("overflow: on the alternate stack: %d\n", on_alternate);
  exit(0);
}

// Reads with a signal in between; what came first.
static void interrupted_read(const char* what, int flags, void (*handler)(int)) {
  char byte = '-';
  install(SIGALRM, handler, flags);
  // Again and again: the first may come before the read.
  const struct itimerval soon = {.it_interval = {0, 3000}, .it_value = {0, 3000}};
  const struct itimerval never = {0};
  setitimer(ITIMER_REAL, &soon, NULL);
  const ssize_t got = read(pipe_fds[0], &byte, 1);
  const int error = errno;
  setitimer(ITIMER_REAL, &never, NULL);
  printf("%s: %s %c\n", what, got < 0 && error == EINTR ? "interrupted" : "read", byte);
  if (got < 0 && handler == writes_pipe) REQUIRE(read(pipe_fds[0], &byte, 1) == 1);
}

int main(void) {
  REQUIRE(pipe(pipe_fds) == 0);
  for (int i = 0; i < kDeepest; i++) install(kSignals[i], nests, 0);
  raise(SIGUSR1);
  printf("nested: deepest %d, order %d\n", deepest, order);
  deepest = 0;
  install(SIGUSR1, recurses, SA_NODEFER);
  raise(SIGUSR1);
  printf("not deferred: deepest %d\n", deepest);

  interrupted_read("without restart", 0, does_nothing);
  interrupted_read("with restart", SA_RESTART, writes_pipe);

  install(SIGUSR1, does_nothing, SA_RESETHAND);
  raise(SIGUSR1);
  struct sigaction now;
  sigaction(SIGUSR1, NULL, &now);
  printf("once: %s\n", now.sa_handler == SIG_DFL ? "default again" : "still there");

  use_alternate_stack();
  install(SIGUSR1, looks_at_stack, SA_ONSTACK);
  raise(SIGUSR1);
  printf("on the alternate stack: %d\n", on_alternate);
  pthread_t thread;
  pthread_create(&thread, NULL, thread_with_alternate_stack, NULL);
  pthread_join(thread, NULL);
  use_alternate_stack();
  fflush(stdout);
  install(SIGSEGV, on_overflow, SA_ONSTACK);
  never_ending(NULL);
  return 1;
}
