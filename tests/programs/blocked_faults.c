// Signals of faults that are sent while they are blocked: pending, waited for, read, delivered once
// they are not blocked any more, and inherited by a program that is executed. The argument: how
// many kinds, of which the last one is SIGTRAP.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/programs/require.h"

static const int kinds[] = {SIGILL, SIGBUS, SIGFPE, SIGSEGV, SIGTRAP};

static int kind_count = 5;
static sigset_t faults, none;
static volatile int handled, quiet;

static void on_signal(int number, siginfo_t* info, void* context) {
  (void)context;
  ++handled;
  if (!quiet) printf("  handled %d, code %d\n", number, info->si_code);
}

static void show_pending(const char* when) {
  sigset_t pending;
  REQUIRE(sigpending(&pending) == 0);
  printf("%s:", when);
  for (int i = 0; i < kind_count; ++i) printf(" %d", sigismember(&pending, kinds[i]));
  printf("\n");
}

static void send_all(void) {
  for (int i = 0; i < kind_count; ++i) {
    if (i % 2 == 0) {
      raise(kinds[i]);
    } else {
      REQUIRE(kill(getpid(), kinds[i]) == 0);
    }
  }
  REQUIRE(kill(getpid(), SIGSEGV) == 0);  // is one with the first
}

static void wait_for_all(void) {
  const struct timespec moment = {0, 1000000};
  siginfo_t info;
  for (int i = 0; i < kind_count; ++i) {
    const int number = sigtimedwait(&faults, &info, &moment);
    printf("  waited for %d, code %d\n", number, info.si_code);
  }
  printf("  then %d, %d\n", sigtimedwait(&faults, NULL, &moment), errno == EAGAIN);
}

// A blocked signal ends no call.
static void sleep_through(void) {
  const pid_t child = fork();
  if (child == 0) {
    show_pending("child");
    const struct timespec moment = {0, 20000000};
    for (int i = 0; i < kind_count; ++i) {
      nanosleep(&moment, NULL);
      kill(getppid(), kinds[i]);
    }
    _exit(0);
  }
  const struct timespec while_all_come = {0, 200000000};
  printf("slept: %d\n", nanosleep(&while_all_come, NULL));
  int status;
  REQUIRE(waitpid(child, &status, 0) == child);
}

// The masks of calls that wait.
static void wait_with_masks(void) {
  const struct timespec second = {1, 0};
  struct epoll_event event;
  const int epoll = epoll_create1(0);
  raise(SIGSEGV);
  const int suspended = sigsuspend(&none);
  printf("sigsuspend %d, %d\n", suspended, errno == EINTR);
  raise(SIGSEGV);
  const int polled = ppoll(NULL, 0, &second, &none);
  printf("ppoll %d, %d\n", polled, errno == EINTR);
  kill(getpid(), SIGBUS);
  const int selected = pselect(0, NULL, NULL, NULL, &second, &none);
  printf("pselect %d, %d\n", selected, errno == EINTR);
  raise(SIGFPE);
  const int waited = epoll_pwait(epoll, &event, 1, 1000, &none);
  printf("epoll_pwait %d, %d\n", waited, errno == EINTR);
  raise(SIGILL);
  const int illegal = sigsuspend(&none);
  printf("sigsuspend %d, %d\n", illegal, errno == EINTR);
  close(epoll);
}

static void* wait_for_one(void* argument) {
  int number = 0;
  REQUIRE(sigwait(&faults, &number) == 0);
  printf("thread waited for %d\n", number);
  return argument;
}

static void read_some(void) {
  sigset_t read_set = faults;
  sigdelset(&read_set, SIGILL);
  const int file = signalfd(-1, &read_set, SFD_NONBLOCK);
  send_all();
  struct pollfd entry = {.fd = file, .events = POLLIN};
  printf("readable: %d\n", poll(&entry, 1, 1000));
  struct signalfd_siginfo info;
  while (read(file, &info, sizeof(info)) == sizeof(info)) {
    printf("  read %d, code %d\n", (int)info.ssi_signo, info.ssi_code);
  }
  close(file);
  show_pending("left");
}

static void show_flags(void) {
  struct sigaction action = {.sa_sigaction = on_signal,
                             .sa_flags = SA_SIGINFO | 0x400 | 0x800 | 0x10};
  REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
  REQUIRE(sigaction(SIGUSR1, NULL, &action) == 0);
  printf("flags %x\n", (unsigned)action.sa_flags);
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  sigemptyset(&none);
  sigemptyset(&faults);
  if (argc > 1) kind_count = atoi(argv[1]);
  for (int i = 0; i < kind_count; ++i) sigaddset(&faults, kinds[i]);
  if (argc > 2) {
    show_pending("executed");
    return 0;
  }
  sigprocmask(SIG_BLOCK, &faults, NULL);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
  for (int i = 0; i < kind_count; ++i) sigaction(kinds[i], &action, NULL);

  send_all();
  show_pending("sent");
  wait_for_all();
  show_pending("waited");
  send_all();
  for (int i = 0; i < kind_count; ++i) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, kinds[i]);
    printf("unblocked %d\n", kinds[i]);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
  }
  sigprocmask(SIG_BLOCK, &faults, NULL);
  send_all();
  quiet = 1;
  handled = 0;
  sigprocmask(SIG_UNBLOCK, &faults, NULL);
  quiet = 0;
  printf("all at once: %d\n", handled);
  sigprocmask(SIG_BLOCK, &faults, NULL);
  wait_with_masks();
  sleep_through();
  wait_for_all();
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, wait_for_one, NULL) == 0);
  pthread_kill(thread, SIGSEGV);
  pthread_join(thread, NULL);
  read_some();
  show_flags();
  signal(SIGILL, SIG_IGN);
  raise(SIGBUS);
  show_pending("ignored");
  execl(argv[0], argv[0], argc > 1 ? argv[1] : "5", "executed", NULL);
  return 1;
}
