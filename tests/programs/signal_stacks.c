// Alternate stacks, those that are disarmed in handlers as well: prints what sigaltstack and the
// frames of handlers say of them.

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif
#define BYTES 65536

static char stacks[3][BYTES];
static int nested, most_nested;

static int number_of(const void* address) {
  for (int i = 0; i < 3; i++) {
    if ((const char*)address >= stacks[i] && (const char*)address < stacks[i] + BYTES) return i;
  }
  return -1;
}

static void print_stack(const char* where, const stack_t* stack) {
  printf("%s: stack %d, flags %x, %zu bytes\n", where, number_of(stack->ss_sp),
         (unsigned)stack->ss_flags, stack->ss_size);
  fflush(stdout);
}

static void print_current(const char* where) {
  stack_t stack;
  sigaltstack(NULL, &stack);
  print_stack(where, &stack);
}

static void set(int number, unsigned flags, size_t bytes) {
  const stack_t stack = {.ss_sp = stacks[number], .ss_flags = (int)flags, .ss_size = bytes};
  const int result = sigaltstack(&stack, NULL);
  printf("set %d %x %zu: %s\n", number, flags, bytes, result == 0 ? "done" : strerror(errno));
  print_current("now");
}

static void handler(int signal, siginfo_t* info, void* context) {
  ucontext_t* const interrupted = context;
  char here;
  (void)info;
  printf("handler of %d on %d\n", signal, number_of(&here));
  print_stack("frame", &interrupted->uc_stack);
  print_current("in handler");
  if (nested < most_nested) {
    nested++;
    if (nested == 2) set(1, SS_AUTODISARM, BYTES);
    raise(SIGUSR2);
    nested--;
    print_current("after nested");
  }
  // Taken over when it returns: no stack is in use.
  const int disarms = (interrupted->uc_stack.ss_flags & (int)SS_AUTODISARM) != 0;
  if (signal == SIGUSR1 && disarms) interrupted->uc_stack.ss_sp = stacks[2];
}

static void run(unsigned flags, size_t bytes, int levels) {
  set(0, flags, bytes);
  most_nested = levels;
  raise(SIGUSR1);
  print_current("after");
  raise(SIGUSR2);
}

static void* in_thread(void* unused) {
  raise(SIGUSR1);
  print_current("thread");
  run(0, BYTES, 1);
  return unused;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = handler,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  const unsigned flags[] = {0,          SS_AUTODISARM,
                            SS_ONSTACK, SS_AUTODISARM | SS_ONSTACK,
                            SS_DISABLE, SS_AUTODISARM | SS_DISABLE,
                            0x40000000, 3};
  // What frames say before one is set depends on who has made the process.
  print_current("begins");
  for (int i = 0; i < 8; i++) {
    for (int levels = 0; levels < 3; levels++) run(flags[i], BYTES, levels);
    run(flags[i], 100, 0);
  }
  set(0, SS_AUTODISARM, BYTES);
  fflush(stdout);
  if (fork() == 0) {
    raise(SIGUSR2);
    _exit(0);
  }
  wait(NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, in_thread, NULL);
  pthread_join(thread, NULL);
  return 0;
}
