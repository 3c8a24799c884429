// System calls and signals in each other's way. What it prints does not depend on when the signals
// come, and is the same recorded or not.
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int fds[2];
static volatile sig_atomic_t alarms, inner, order;

static void on_alarm(int number) { alarms++; }

static void on_alarm_write(int number) {
  alarms++;
  if (write(fds[1], "x", 1) != 1) _exit(9);
}

static void on_outer(int number) {
  raise(SIGUSR2);
  order = order * 10 + 1;  // after the inner one
}

static void on_inner(int number) {
  inner++;
  order = order * 10 + 2;
}

static void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(number, &action, NULL);
}

static void alarm_in_ms(int ms) {
  struct itimerval value = {{0, 0}, {0, ms * 1000}};
  setitimer(ITIMER_REAL, &value, NULL);
}

static double seconds_since(const struct timespec* start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec - start->tv_sec + (now.tv_nsec - start->tv_nsec) * 1e-9;
}

static void reads(void) {
  char byte = 0;
  handle(SIGALRM, on_alarm, 0);
  alarm_in_ms(100);
  ssize_t got = read(fds[0], &byte, 1);
  printf("read: %zd %s\n", got, strerror(errno));
  handle(SIGALRM, on_alarm_write, SA_RESTART);
  alarm_in_ms(100);
  got = read(fds[0], &byte, 1);
  printf("restarted read: %zd %c\n", got, byte);
}

static void sleeps(void) {
  struct timespec start, duration = {0, 400000000}, left = {0, 0};
  handle(SIGALRM, on_alarm, SA_RESTART);
  alarm_in_ms(100);
  int result = nanosleep(&duration, &left);
  printf("nanosleep: %d %s, some left %d\n", result, strerror(errno), left.tv_nsec > 1000000);
  // A signal that is ignored by default must not end it.
  handle(SIGALRM, SIG_DFL, 0);
  struct sigevent event;
  memset(&event, 0, sizeof(event));
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGWINCH;
  timer_t timer;
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  struct itimerspec in = {{0, 0}, {0, 100000000}};
  clock_gettime(CLOCK_MONOTONIC, &start);
  timer_settime(timer, 0, &in, NULL);
  result = nanosleep(&duration, NULL);
  printf("undisturbed nanosleep: %d, whole %d\n", result, seconds_since(&start) >= 0.4);
}

static void waits(void) {
  handle(SIGALRM, on_alarm, SA_RESTART);
  alarm_in_ms(100);
  struct pollfd poll_fd = {fds[0], POLLIN, 0};
  int result = poll(&poll_fd, 1, 5000);
  printf("poll: %d %s\n", result, strerror(errno));
  alarm_in_ms(100);
  result = pause();
  printf("pause: %d %s\n", result, strerror(errno));
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  sigprocmask(SIG_BLOCK, &set, NULL);
  alarm_in_ms(100);
  siginfo_t info;
  result = sigwaitinfo(&set, &info);
  printf("sigwaitinfo: %d code %d\n", result, info.si_code == SI_KERNEL);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static volatile sig_atomic_t traps;
static void on_trap(int number) { traps++; }

// The way instructions are stepped must not show in the mask, nor lose a handler.
static void blocked_trap(void) {
  handle(SIGTRAP, on_trap, 0);
  sigset_t all, old, seen;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &old);
  volatile double x = 0.5, y = 0;
  for (int i = 0; i < 3; i++) {
    double result;
    __asm__ volatile("fldl %1; fsin; fstpl %0" : "=m"(result) : "m"(x));
    y += result;
  }
  sigprocmask(SIG_SETMASK, NULL, &seen);
  printf("blocked: trap %d, sin %.6f\n", sigismember(&seen, SIGTRAP), y);
  raise(SIGTRAP);
  printf("traps before %d", traps);
  sigprocmask(SIG_SETMASK, &old, NULL);
  printf(", after %d\n", traps);
}

int main(void) {
  if (pipe(fds) != 0) return 1;
  reads();
  sleeps();
  waits();
  handle(SIGUSR1, on_outer, 0);
  handle(SIGUSR2, on_inner, 0);
  raise(SIGUSR1);
  printf("nested: inner %d, order %d\n", inner, order);
  blocked_trap();
  printf("%d alarms\n", alarms);
  return 0;
}
