// Signals that are ignored end no call, whatever it waits for, and make none wait longer; the same
// signals with a handler do. Prints how each call ended.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/require.h"

static int timeout_ms = 200;
enum { kLateMs = 1500, kSignals = 100 };  // a call that starts again at each signal takes longer

static struct timespec timeout = {0, 200 * 1000000};
static int epoll, nobody[2], semaphore;
static aio_context_t requests;
static volatile sig_atomic_t handled;

static long in_epoll_wait(void) {
  struct epoll_event event;
  return epoll_wait(epoll, &event, 1, timeout_ms);
}

static long in_epoll_pwait2(void) {
  struct epoll_event event;
  return syscall(SYS_epoll_pwait2, epoll, &event, 1, &timeout, NULL, 8);
}

// The signal comes only here.
static long in_epoll_pwait(void) {
  struct epoll_event event;
  sigset_t blocked, none;
  sigemptyset(&none);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigprocmask(SIG_BLOCK, &blocked, NULL);
  const long result = epoll_pwait(epoll, &event, 1, timeout_ms, &none);
  const int error = errno;
  REQUIRE(result == 0 || handled > 0);
  sigprocmask(SIG_UNBLOCK, &blocked, NULL);
  errno = error;
  return result;
}

static long in_semtimedop(void) {
  struct sembuf take = {0, -1, 0};
  return semtimedop(semaphore, &take, 1, &timeout);
}

static long in_sigtimedwait(void) {
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGUSR2);
  return sigtimedwait(&awaited, NULL, &timeout);
}

static long in_io_getevents(void) {
  struct io_event event;
  struct timespec copy = timeout;
  return syscall(SYS_io_getevents, requests, 1L, 1L, &event, &copy);
}

static long in_poll(void) {
  struct pollfd what = {nobody[0], POLLIN, 0};
  return poll(&what, 1, timeout_ms);
}

static long in_ppoll(void) {
  struct pollfd what = {nobody[0], POLLIN, 0};
  return ppoll(&what, 1, &timeout, NULL);
}

static long in_select(void) {
  struct timeval time = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
  return select(0, NULL, NULL, NULL, &time);
}

static long in_nanosleep(void) { return nanosleep(&timeout, NULL); }

static void handler(int signal) { handled = handled + 1; }

static double Ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

// Sends its parent signals, 20 ms apart, for longer than the call may take.
static pid_t Sender(int signal) {
  const pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  for (int i = 0; i < kSignals && getppid() == parent; ++i) {
    usleep(20000);
    kill(parent, signal);
  }
  _exit(0);
}

static void Try(const char* name, long (*call)(void), int signal, int ends_early) {
  const pid_t child = Sender(signal);
  const double before = Ms();
  handled = 0;
  errno = 0;
  const long result = call();
  const int error = errno;
  REQUIRE(!ends_early || handled > 0);
  const double took = Ms() - before;
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, NULL, 0) == child);
  const char* const when = took < timeout_ms - 1 ? "early" : took < kLateMs ? "in time" : "late";
  printf("%s, signal %d: %ld %s %s\n", name, signal, result, strerror(error),
         ends_early || strcmp(when, "late") == 0 ? when : "in time");
  REQUIRE(ends_early || took >= timeout_ms - 1);
}

static const struct {
  const char* name;
  long (*call)(void);
} calls[] = {{"epoll_pwait", in_epoll_pwait},
             {"epoll_wait", in_epoll_wait},
             {"epoll_pwait2", in_epoll_pwait2},
             {"semtimedop", in_semtimedop},
             {"sigtimedwait", in_sigtimedwait},
             {"io_getevents", in_io_getevents},
             {"poll", in_poll},
             {"ppoll", in_ppoll},
             {"select", in_select},
             {"nanosleep", in_nanosleep}};

static void* in_thread(void* argument) {
  Try("epoll_wait in a thread", in_epoll_wait, SIGUSR1, 0);
  return NULL;
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  epoll = epoll_create1(0);
  REQUIRE(epoll >= 0 && pipe(nobody) == 0);
  semaphore = semget(IPC_PRIVATE, 1, 0600);
  REQUIRE(semaphore >= 0 && syscall(SYS_io_setup, 1, &requests) == 0);
  signal(SIGUSR1, SIG_IGN);
  for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); ++i) {
    Try(calls[i].name, calls[i].call, SIGUSR1, 0);
    Try(calls[i].name, calls[i].call, i % 2 == 0 ? SIGWINCH : SIGCONT, 0);
  }
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, &in_thread, NULL) == 0);
  pthread_join(thread, NULL);
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  timeout_ms = 20000;
  timeout = (struct timespec){20, 0};
  for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); ++i) {
    Try(calls[i].name, calls[i].call, SIGUSR1, 1);
  }
  semctl(semaphore, 0, IPC_RMID);
  return 0;
}
