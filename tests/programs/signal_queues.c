// Signals that are waited for: real-time queues in order, sigtimedwait, sigwaitinfo, signalfd,
// poll.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <time.h>

#include "tests/programs/require.h"

static sigset_t set;
static volatile int handled[16], handled_count;

static void on_signal(int number, siginfo_t* info, void* context) {
  (void)context;
  handled[handled_count++ % 16] = (number - SIGRTMIN) * 100 + info->si_value.sival_int;
}

static void queue(int number, int value) {
  const union sigval payload = {.sival_int = value};
  REQUIRE(sigqueue(getpid(), number, payload) == 0);
}

static void queue_some(void) {
  queue(SIGRTMIN + 2, 1);
  queue(SIGRTMIN + 1, 2);
  queue(SIGRTMIN + 2, 3);
  queue(SIGRTMIN, 4);
  queue(SIGRTMIN + 1, 5);
  queue(SIGRTMIN, 6);
}

int main(void) {
  sigemptyset(&set);
  for (int i = 0; i < 3; i++) sigaddset(&set, SIGRTMIN + i);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  siginfo_t info;

  queue_some();
  printf("waited for:");
  for (int i = 0; i < 6; i++) {
    const int number = sigwaitinfo(&set, &info);
    printf(" %d", (number - SIGRTMIN) * 100 + info.si_value.sival_int);
  }
  const struct timespec moment = {0, 2000000};
  const int none = sigtimedwait(&set, &info, &moment);
  printf("\ntime limit: %s\n", none == -1 && errno == EAGAIN ? "passed" : "?");

  const int fd = signalfd(-1, &set, SFD_CLOEXEC);
  queue_some();
  kill(getpid(), SIGUSR1);
  struct pollfd ready = {fd, POLLIN, 0};
  printf("from a file:");
  while (poll(&ready, 1, 0) == 1) {
    struct signalfd_siginfo read_info;
    REQUIRE(read(fd, &read_info, sizeof(read_info)) == sizeof(read_info));
    printf(" %d", read_info.ssi_signo == SIGUSR1
                      ? -1
                      : ((int)read_info.ssi_signo - SIGRTMIN) * 100 + read_info.ssi_int);
  }
  printf("\n");

  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
  action.sa_mask = set;
  for (int i = 0; i < 3; i++) sigaction(SIGRTMIN + i, &action, NULL);
  queue_some();
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  printf("handled:");
  for (int i = 0; i < handled_count; i++) printf(" %d", handled[i]);
  printf("\n");
  return 0;
}
