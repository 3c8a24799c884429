// Signals of all kinds; prints what a program can observe of them.

#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t ticks, faults, order;
static sigjmp_buf back;

static void Set(int signal, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, NULL) != 0) perror("sigaction");
}

static void OnTick(int signal, siginfo_t* info, void* context) {
  // Vector registers are the handler's to use.
  __asm__ volatile("pxor %%xmm0, %%xmm0\n pxor %%xmm7, %%xmm7" ::: "xmm0", "xmm7");
  ++ticks;
}

// Sums in all sorts of registers while a timer interrupts a thousand times a second.
static void Storm(void) {
  Set(SIGALRM, OnTick, SA_RESTART);
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  uint64_t sum = 0, r10 = 7, r11 = 11;
  double x = 0;
  while (ticks < 100) {
    for (int i = 0; i < 1000; ++i) {
      sum += (uint64_t)i * i ^ (sum >> 3);
      x = x * 0.5 + i;
      __asm__ volatile("add $3, %%r10\n xor %%r10, %%r11\n xor %%r10, %%r11"
                       : "+r"(sum)
                       :
                       : "r10", "r11");
    }
    sum = 0;
    if (x < 1995.9 || x > 1996.1) printf("wrong %f\n", x);
    x = 0;
  }
  setitimer(ITIMER_REAL, &never, NULL);
  printf("storm %lu %lu %lu\n", sum, r10, r11);
}

static void OnFault(int signal, siginfo_t* info, void* context) {
  ++faults;
  printf("fault %d code %d address %d\n", signal, info->si_code, info->si_addr != NULL);
  siglongjmp(back, 1);
}

static void Faults(void) {
  Set(SIGSEGV, OnFault, 0);
  Set(SIGFPE, OnFault, 0);
  Set(SIGILL, OnFault, 0);
  Set(SIGTRAP, OnFault, 0);
  Set(SIGBUS, OnFault, 0);
  volatile int zero = 0;
  if (sigsetjmp(back, 1) == 0) *(volatile int*)16 = 1;
  if (sigsetjmp(back, 1) == 0) printf("%d\n", 7 / zero);
  if (sigsetjmp(back, 1) == 0) __asm__ volatile("ud2");
  if (sigsetjmp(back, 1) == 0) __asm__ volatile("int3");
  if (sigsetjmp(back, 1) == 0) __asm__ volatile("hlt");
  if (sigsetjmp(back, 1) == 0) ((void (*)(void))0x123456)();
  if (sigsetjmp(back, 1) == 0) *(volatile int*)0x8000000000000000 = 1;
  printf("faults %d\n", faults);
}

static char* page;

// Repairs what the instruction fell over, and looks at its registers.
static void OnRepair(int signal, siginfo_t* info, void* context) {
  ucontext_t* uc = context;
  printf("repair %ld r10 %llx r11 %llx rcx %llx at %d\n", (long)((char*)info->si_addr - page),
         uc->uc_mcontext.gregs[REG_R10], uc->uc_mcontext.gregs[REG_R11],
         uc->uc_mcontext.gregs[REG_RCX], *(uint8_t*)uc->uc_mcontext.gregs[REG_RIP]);
  uc->uc_mcontext.gregs[REG_R11] += 1;
  mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void Repair(void) {
  page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Set(SIGSEGV, OnRepair, SA_NODEFER);
  uint64_t r10, r11, rcx;
  __asm__ volatile(
      "mov $0x1010, %%r10d\n mov $0x1111, %%r11d\n mov $0xcc, %%ecx\n"
      "add $5, %%r10\n mov %%r10, 8(%3)\n add 8(%3), %%rcx\n"
      "mov %%r10, %0\n mov %%r11, %1\n mov %%rcx, %2"
      : "=&r"(r10), "=&r"(r11), "=&r"(rcx)
      : "r"(page)
      : "r10", "r11", "rcx", "memory");
  printf("repaired %lx %lx %lx\n", r10, r11, rcx);
}

static void OnNested(int signal, siginfo_t* info, void* context) {
  char here;
  stack_t stack;
  sigset_t blocked;
  sigaltstack(NULL, &stack);
  sigprocmask(SIG_SETMASK, NULL, &blocked);
  const int on = &here >= (char*)stack.ss_sp && &here < (char*)stack.ss_sp + stack.ss_size;
  printf("nested %d order %d on %d flags %d code %d value %d usr1 %d usr2 %d\n", signal, ++order,
         on, stack.ss_flags, info->si_code, info->si_value.sival_int,
         sigismember(&blocked, SIGUSR1), sigismember(&blocked, SIGUSR2));
  if (signal == SIGUSR1) raise(SIGUSR2);
  printf("leaving %d\n", signal);
}

static void Nested(void) {
  const stack_t stack = {malloc(65536), 0, 65536};
  sigaltstack(&stack, NULL);
  Set(SIGUSR1, OnNested, SA_ONSTACK);
  Set(SIGUSR2, OnNested, 0);
  raise(SIGUSR1);
  const union sigval value = {.sival_int = 42};
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, &old);
  sigqueue(getpid(), SIGUSR2, value);
  sigqueue(getpid(), SIGUSR1, value);
  puts("blocked");
  sigprocmask(SIG_SETMASK, &old, NULL);
  struct sigaction action;
  Set(SIGUSR2, OnNested, SA_RESETHAND);
  raise(SIGUSR2);
  sigaction(SIGUSR2, NULL, &action);
  printf("reset %d\n", action.sa_handler == SIG_DFL);
}

static void OnChild(int signal, siginfo_t* info, void* context) { ++order; }

// System calls that a signal interrupts.
static void Interrupted(void) {
  int pipes[2];
  char byte = 0;
  if (pipe(pipes) != 0) return;
  for (int restart = 0; restart < 2; ++restart) {
    Set(SIGALRM, OnTick, restart ? SA_RESTART : 0);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      usleep(20000);
      kill(getppid(), SIGALRM);
      usleep(20000);
      _exit(write(pipes[1], "x", 1) == 1 ? 0 : 1);
    }
    const int before = ticks;
    errno = 0;
    ssize_t got = read(pipes[0], &byte, 1);
    printf("read %zd %s ticks %d\n", got, strerror(errno), ticks - before);
    if (got < 0) got = read(pipes[0], &byte, 1);
    int status;
    while (waitpid(child, &status, 0) < 0) {
    }
    printf("byte %c status %d\n", byte, status);
  }
  Set(SIGCHLD, OnChild, 0);
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, &old);
  order = 0;
  fflush(stdout);
  if (fork() == 0) _exit(0);
  while (order == 0) sigsuspend(&old);
  sigprocmask(SIG_SETMASK, &old, NULL);
  printf("child %d %d\n", order, wait(NULL) > 0);
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 4096);
  const char* which = argc > 1 ? argv[1] : "";
  if (strcmp(which, "segv") == 0) *(volatile int*)16 = 1;
  if (strcmp(which, "abort") == 0) abort();
  if (strcmp(which, "ud2") == 0) __asm__ volatile("ud2");
  if (strcmp(which, "int3") == 0) __asm__ volatile("int3");
  if (strcmp(which, "jump") == 0) ((void (*)(void))0x1234)();
  if (strcmp(which, "term") == 0) kill(getpid(), SIGTERM);
  if (strcmp(which, "blocked") == 0) {
    sigset_t all;
    sigfillset(&all);
    Set(SIGSEGV, OnFault, 0);
    sigprocmask(SIG_SETMASK, &all, NULL);
    *(volatile int*)16 = 1;
  }
  if (strcmp(which, "overflow") == 0) {
    volatile char* big = __builtin_alloca(100 << 20);
    big[0] = 1;
  }
  Storm();
  Faults();
  Repair();
  Nested();
  Interrupted();
  return 9;
}
