// A PID namespace of its own, where that is permitted: its first process, which no signal without a
// handler ends, with threads, children of all kinds, and another namespace below.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/programs/require.h"

static volatile sig_atomic_t handled;

static void handle(int signal, siginfo_t* info, void* context) {
  (void)context;
  if (info->si_pid == getpid()) handled = signal;
}

static int ending(pid_t child) {
  int status;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void* in_thread(void* argument) {
  *(pid_t*)argument = (pid_t)syscall(SYS_gettid);
  return argument;
}

// What is sent to it natively does not end it, nor what it waits in.
static void survive(void) {
  REQUIRE(raise(SIGTERM) == 0 && raise(SIGUSR1) == 0 && kill(1, SIGSEGV) == 0);
  const pid_t sender = fork();
  if (sender == 0) {
    usleep(50000);
    REQUIRE(kill(1, SIGTERM) == 0 && kill(1, SIGKILL) == 0);
    _exit(getpid());
  }
  const struct timespec pause = {0, 200000000};
  REQUIRE(nanosleep(&pause, NULL) == 0);
  printf("%d lives on, the sender was %d\n", getpid(), ending(sender));
}

static void take_signal(void) {
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
  REQUIRE(sigaction(SIGUSR2, &action, NULL) == 0);
  REQUIRE(raise(SIGUSR2) == 0 && handled == SIGUSR2);
}

static int below(void* argument) {
  (void)argument;
  pthread_t thread;
  pid_t id;
  REQUIRE(pthread_create(&thread, NULL, in_thread, &id) == 0 && pthread_join(thread, NULL) == 0);
  const pid_t child = fork();
  if (child == 0) _exit(10 + getpid());
  const int status = ending(child);
  printf("below: process %d, parent %d, thread %d, child %d ended with %d\n", getpid(), getppid(),
         id, child, status);
  fflush(stdout);
  return 7;
}

static void make_processes(void) {
  static char stack[1 << 16];
  char *true_arguments[] = {"true", NULL}, *false_arguments[] = {"false", NULL};
  pid_t spawned, shared;
  REQUIRE(posix_spawn(&spawned, "/bin/true", NULL, NULL, true_arguments, NULL) == 0);
  printf("spawned %d ended with %d\n", spawned, ending(spawned));
  shared = vfork();
  if (shared == 0) {
    execv("/bin/false", false_arguments);
    _exit(9);
  }
  printf("vfork made %d, which ended with %d\n", shared, ending(shared));
  fflush(stdout);
  const pid_t lower = clone(below, stack + sizeof(stack), CLONE_NEWPID | SIGCHLD, NULL);
  REQUIRE(lower > 0);
  printf("below was %d, ended with %d\n", lower, ending(lower));
}

static void be_first(void) {
  printf("first: process %d, parent %d\n", getpid(), getppid());
  fflush(stdout);
  // 2 outside is a thread of the kernel's, as a rule.
  make_processes();
  fflush(stdout);
  survive();
  take_signal();
  fflush(stdout);
  pthread_t threads[2];
  pid_t ids[2];
  for (int i = 0; i < 2; ++i) {
    REQUIRE(pthread_create(&threads[i], NULL, in_thread, &ids[i]) == 0);
    REQUIRE(pthread_join(threads[i], NULL) == 0);
  }
  printf("threads %d and %d\n", ids[0], ids[1]);
  fflush(stdout);
}

int main(void) {
  if (unshare(CLONE_NEWPID) != 0) return 0;
  const pid_t first = fork();
  if (first == 0) {
    be_first();
    _exit(0);
  }
  printf("the first ended with %d\n", ending(first));
  return 0;
}
