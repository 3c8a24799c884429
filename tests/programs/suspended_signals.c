// Several signals wait for a call that lets them through (sigsuspend, ppoll, pselect, epoll_pwait):
// prints which handlers ran, in which order, and what each blocked and returned to.

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/programs/require.h"

static char lines[4096];
static size_t length;

static uint64_t bits_of(const sigset_t* set) {
  uint64_t bits;
  memcpy(&bits, set, sizeof(bits));
  return bits;
}

static void handler(int signal, siginfo_t* info, void* context) {
  sigset_t blocked;
  REQUIRE(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0);
  length += (size_t)snprintf(lines + length, sizeof(lines) - length,
                             "  %d from %d blocks %llx, returns to %llx\n", signal, info->si_code,
                             (unsigned long long)bits_of(&blocked),
                             (unsigned long long)bits_of(&((ucontext_t*)context)->uc_sigmask));
}

static int wait_with(int call, const sigset_t* mask) {
  const struct timespec second = {1, 0};
  struct epoll_event event;
  switch (call) {
    case 0:
      return sigsuspend(mask);
    case 1:
      return ppoll(NULL, 0, &second, mask);
    case 2:
      return pselect(0, NULL, NULL, NULL, &second, mask);
    default: {
      const int descriptor = epoll_create1(0);
      const int result = epoll_pwait(descriptor, &event, 1, 1000, mask);
      const int error = errno;
      close(descriptor);
      errno = error;
      return result;
    }
  }
}

static void run(int call, int flags, int added, int let_through) {
  const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGRTMIN + 3};
  sigset_t blocked, mask;
  sigemptyset(&blocked);
  for (int i = 0; i < 4; i++) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    sigemptyset(&action.sa_mask);
    if (added != 0) sigaddset(&action.sa_mask, added);
    REQUIRE(sigaction(signals[i], &action, NULL) == 0);
    sigaddset(&blocked, signals[i]);
  }
  sigaddset(&blocked, SIGHUP);
  REQUIRE(sigprocmask(SIG_SETMASK, &blocked, NULL) == 0);
  for (int i = 0; i < 4; i++) raise(signals[i]);
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  if (let_through == 0) sigaddset(&mask, SIGUSR2);
  length = 0;
  const int result = wait_with(call, &mask);
  const int error = errno;
  sigset_t pending, after;
  REQUIRE(sigpending(&pending) == 0 && sigprocmask(SIG_BLOCK, NULL, &after) == 0);
  lines[length] = 0;
  printf("%d: %d %s, pending %llx, blocked %llx\n%s", call, result, strerror(error),
         (unsigned long long)bits_of(&pending), (unsigned long long)bits_of(&after), lines);
  sigemptyset(&mask);
  REQUIRE(sigprocmask(SIG_SETMASK, &mask, NULL) == 0);
}

int main(void) {
  for (int call = 0; call < 4; call++) {
    run(call, 0, 0, 1);
    run(call, SA_NODEFER, 0, 1);
    run(call, 0, SIGTERM, 1);
    run(call, SA_RESTART, 0, 0);
  }
  return 0;
}
