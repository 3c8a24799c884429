// Has itself trapped after each instruction: `popf`, or `signal`, by the flags that a handler
// leaves in its frame.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

static volatile int steps;
static volatile long distance;
static int most = 1 << 30;

static void on_trap(int signal, siginfo_t* info, void* context) {
  static long last;
  greg_t* const registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  (void)signal;
  steps += info->si_code == TRAP_TRACE ? 1 : 1000;
  if (steps > 1) distance += registers[REG_RIP] - last;
  last = registers[REG_RIP];
  if (steps == most) registers[REG_EFL] &= ~0x100l;
}

static void on_signal(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_EFL] |= 0x100;
}

static void handle(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(signal, &action, NULL);
}

int main(int argc, char** argv) {
  long value = 1;
  handle(SIGTRAP, on_trap);
  printf("before\n");
  fflush(stdout);
  if (argc > 1 && strcmp(argv[1], "signal") == 0) {
    most = 20;
    handle(SIGUSR1, on_signal);
    raise(SIGUSR1);
    printf("%d steps\n", steps);
    return 0;
  }
  for (int i = 0; i < 3; i++) {
    __asm__ volatile(
        "pushfq; orq $0x100, (%%rsp); popfq; nop; inc %0; add $2, %0; lea 4(%0), %0\n\t"
        "mov $3, %%ecx; 1: dec %%ecx; jnz 1b; pushfq; andq $~0x100, (%%rsp); popfq; nop"
        : "+r"(value)
        :
        : "rcx", "cc", "memory");
  }
  printf("%ld, %d steps over %ld bytes\n", value, steps, distance);
  return 0;
}
