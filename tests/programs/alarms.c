// Timers, handlers, jumps out of handlers, an alternate stack, nested and blocked signals.
// What it prints does not depend on when the signals come.
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t alarms, user_signals, on_alternate_stack, info_ok;
static sigjmp_buf jump;
static char* alternate;
static size_t alternate_size = 65536;
static volatile uint64_t work;

static void on_alarm(int number) {
  (void)number;
  alarms++;
}

static void on_alarm_jump(int number) {
  (void)number;
  siglongjmp(jump, 1);
}

static void on_user(int number, siginfo_t* info, void* context) {
  (void)context;
  char here;
  on_alternate_stack = &here >= alternate && &here < alternate + alternate_size;
  info_ok = info->si_signo == number && info->si_pid == getpid();
  user_signals++;
}

static void handle(int number, void (*handler)(int)) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  sigaction(number, &action, NULL);
}

static void timer(long first_us, long every_us) {
  struct itimerval value = {{0, every_us}, {0, first_us}};
  setitimer(ITIMER_REAL, &value, NULL);
}

int main(void) {
  // Interrupted arithmetic: registers and flags must survive.
  handle(SIGALRM, on_alarm);
  timer(1000, 1000);
  uint64_t sum = 0;
  double real = 1;
  while (alarms < 20) {
    for (int i = 0; i < 1000; i++) {
      sum += i;
      sum ^= sum << 1;
      sum ^= sum << 1;
      sum = i;
      real = real * 1.0000001 + 0.5;
      real = 1;
    }
    work++;
  }
  printf("busy: 20 alarms, sum %llu, real %g\n", (unsigned long long)sum, real);

  // Interrupted system calls. No alarm is left over that would come in place of the next one.
  timer(0, 0);
  sigset_t only_alarm, none;
  sigemptyset(&none);
  sigemptyset(&only_alarm);
  sigaddset(&only_alarm, SIGALRM);
  sigprocmask(SIG_BLOCK, &only_alarm, NULL);
  alarms = 0;
  timer(2000, 0);
  int suspended = sigsuspend(&none);
  printf("sigsuspend: %d %s, %d alarm\n", suspended, strerror(errno), alarms);
  sigprocmask(SIG_SETMASK, &none, NULL);

  // Out of the handler by a jump, from arithmetic and from a system call.
  handle(SIGALRM, on_alarm_jump);
  for (volatile int i = 0; i < 5; i++) {
    if (sigsetjmp(jump, 1) == 0) {
      timer(1500, 0);
      for (;;) {
        if (i & 1) pause();
        work++;
      }
    }
  }
  printf("jumped 5 times\n");

  // The alternate stack, and siginfo.
  alternate = malloc(alternate_size);
  stack_t stack = {.ss_sp = alternate, .ss_size = alternate_size};
  sigaltstack(&stack, NULL);
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_user;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  printf("alternate stack %d, siginfo %d\n", on_alternate_stack, info_ok);

  // Blocked, then let in.
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, &old);
  kill(getpid(), SIGUSR1);
  int before = user_signals;
  sigprocmask(SIG_SETMASK, &old, NULL);
  printf("blocked %d, then %d\n", before, user_signals);

  // Ignored.
  signal(SIGUSR2, SIG_IGN);
  kill(getpid(), SIGUSR2);
  printf("ignored\n");
  free(alternate);
  return 3;
}
