// Where signals come from, and what the kernel says about each: kill, sigqueue, timers, children.
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/programs/require.h"

static volatile siginfo_t last;
static volatile int arrived;
static sigjmp_buf jump;
static int* volatile bad_address = (int*)24;

static void on_signal(int number, siginfo_t* info, void* context) {
  (void)context;
  REQUIRE(number == info->si_signo);
  last = *info;
  arrived++;
}

static void on_fault(int number, siginfo_t* info, void* context) {
  on_signal(number, info, context);
  siglongjmp(jump, 1);
}

static void handle(int number, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(number, &action, NULL);
}

// Blocked outside: so none is missed between the test and the wait.
static void wait_for_signal(void) {
  sigset_t none;
  sigemptyset(&none);
  while (arrived == 0) sigsuspend(&none);
  arrived = 0;
}

static void report(const char* what, int value) {
  printf("%s: signal %d, code %d, value %d\n", what, last.si_signo, last.si_code, value);
}

static void sent(void) {
  kill(getpid(), SIGUSR1);
  wait_for_signal();
  report("kill", last.si_pid == getpid());
  raise(SIGUSR1);
  wait_for_signal();
  report("raise", last.si_pid == getpid());
  const union sigval value = {.sival_int = 4711};
  sigqueue(getpid(), SIGUSR1, value);
  wait_for_signal();
  report("sigqueue", last.si_value.sival_int);
  sigqueue(getpid(), SIGRTMIN + 5, value);
  wait_for_signal();
  report("sigqueue, real-time", last.si_value.sival_int);
}

static void timers(void) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
  event.sigev_value.sival_int = 99;
  timer_t timer;
  REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  const struct itimerspec soon = {.it_value = {0, 2000000}};
  timer_settime(timer, 0, &soon, NULL);
  wait_for_signal();
  report("timer_create", last.si_value.sival_int);
  timer_delete(timer);
  const struct itimerval real = {.it_value = {0, 2000}};
  setitimer(ITIMER_REAL, &real, NULL);
  wait_for_signal();
  report("setitimer", 0);
}

static void children(void) {
  pid_t child = fork();
  if (child == 0) _exit(23);
  wait_for_signal();
  report("child ended", last.si_status);
  REQUIRE(last.si_pid == child && waitpid(child, NULL, 0) == child);
  child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  kill(child, SIGKILL);
  wait_for_signal();
  report("child killed", last.si_status);
  waitpid(child, NULL, 0);
}

static void faults(void) {
  handle(SIGSEGV, on_fault);
  handle(SIGBUS, on_fault);
  handle(SIGFPE, on_fault);
  handle(SIGILL, on_fault);
  handle(SIGTRAP, on_fault);
  if (sigsetjmp(jump, 1) == 0) *(volatile int*)bad_address = 1;
  report("bad address", (int)(intptr_t)last.si_addr);
  const int file = (int)syscall(SYS_memfd_create, "empty", 0);
  char* page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
  if (sigsetjmp(jump, 1) == 0) (void)*(volatile char*)(page + 7);
  report("beyond the end of a file", (int)((char*)last.si_addr - page));
  volatile int zero = 0, one = 1;
  if (sigsetjmp(jump, 1) == 0) one = one / zero;
  report("division", 0);
  if (sigsetjmp(jump, 1) == 0) __asm__ volatile("ud2");
  report("invalid instruction", 0);
  if (sigsetjmp(jump, 1) == 0) __asm__ volatile("int3");
  report("int3", 0);
  if (sigsetjmp(jump, 1) == 0) __asm__ volatile(".byte 0xf1");
  report("int1", 0);
  if (sigsetjmp(jump, 1) == 0) __asm__ volatile("hlt");
  report("privileged instruction", 0);
  // Bit 47 and those above differ.
  if (sigsetjmp(jump, 1) == 0) (void)*(volatile char*)0x1234567800000000;
  report("no address at all", last.si_addr == NULL);
}

int main(void) {
  sigset_t all;
  sigemptyset(&all);
  const int numbers[] = {SIGUSR1, SIGALRM, SIGCHLD, SIGRTMIN + 5};
  for (int i = 0; i < 4; i++) {
    handle(numbers[i], on_signal);
    sigaddset(&all, numbers[i]);
  }
  sigprocmask(SIG_BLOCK, &all, NULL);
  sent();
  timers();
  children();
  faults();
  return 0;
}
