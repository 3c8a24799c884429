// Has its own system calls raise SIGSYS, as emulators of other systems do: from outside a range of
// code, while a byte says so. With an argument, something of that is wrong, which ends the process.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/programs/require.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
enum { kOff, kOn };               // PR_SYS_DISPATCH_*
enum { kAllowed, kBlocked = 1 };  // what the byte says

static volatile char selector;
static volatile int dispatched, last_call, last_code, right_address;
static atomic_int first_thread_waits, called;

static __attribute__((noinline)) long call(long number, long first) {
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(first) : "rcx", "r11", "memory");
  return result;
}

static void on_sigsys(int number, siginfo_t* info, void* context) {
  ucontext_t* const user = context;
  (void)number;
  selector = kAllowed;
  ++dispatched;
  last_call = info->si_syscall;
  last_code = info->si_code;
  right_address = info->si_call_addr == (void*)user->uc_mcontext.gregs[REG_RIP];
  if (user->uc_mcontext.gregs[REG_RAX] == 5000) user->uc_mcontext.gregs[REG_RAX] = 77;
}

static int set(int mode, uintptr_t start, uintptr_t bytes, volatile char* at) {
  return prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, start, bytes, at);
}

static void report(const char* what, long result) {
  selector = kAllowed;
  printf("%s: %ld, %d dispatched, call %d, code %d, address %d\n", what, result, dispatched,
         last_call, last_code, right_address);
  fflush(stdout);
}

// Blocks only while the first thread makes no call: its calls would raise signals instead.
static void* in_thread(void* argument) {
  while (!first_thread_waits) {
  }
  selector = kBlocked;  // no business of this thread's
  const long result = call(5000, 0);
  selector = kAllowed;
  called = 1;
  return result == -ENOSYS ? argument : NULL;
}

static void refused(const char* what, int result) {
  printf("%s: %s\n", what, result == 0 ? "done" : strerror(errno));
}

int main(int argc, char** argv) {
  struct sigaction action = {.sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO};
  REQUIRE(sigaction(SIGSYS, &action, NULL) == 0);
  refused("off, with a range", set(kOff, 0, 4096, NULL));
  refused("no range", set(kOn, 4096, 0, NULL));
  refused("a range past the end", set(kOn, 4096, -4096, NULL));
  refused("a byte of the kernel's", set(kOn, 0, 0, (volatile char*)-1));
  refused("no such mode", set(7, 0, 0, NULL));
  REQUIRE(set(kOn, 0, 0, &selector) == 0);
  report("allowed", call(5000, 0));
  selector = kBlocked;
  report("answered by the handler", call(5000, 0));
  selector = kBlocked;
  report("not made", call(SYS_getppid, 0));
  pthread_t thread;
  void* result;
  REQUIRE(pthread_create(&thread, NULL, in_thread, &thread) == 0);
  first_thread_waits = 1;
  while (!called) {
  }
  pthread_join(thread, &result);
  report("another thread", result == &thread);
  const pid_t child = fork();
  if (child == 0) {
    selector = kBlocked;
    _exit(call(5000, 0) == -ENOSYS ? 3 : 4);
  }
  int status;
  waitpid(child, &status, 0);
  report("a child", WEXITSTATUS(status));
  REQUIRE(set(kOn, (uintptr_t)call, 64, &selector) == 0);
  selector = kBlocked;
  report("within the range", call(5000, 0));
  REQUIRE(set(kOff, 0, 0, NULL) == 0);
  selector = kBlocked;
  report("off", call(5000, 0));
  if (argc == 1) return 0;
  switch (argv[1][0]) {
    case 'h':  // no handler
      signal(SIGSYS, SIG_DFL);
      REQUIRE(set(kOn, 0, 0, &selector) == 0);
      selector = kBlocked;
      break;
    case 's':  // what the byte says
      REQUIRE(set(kOn, 0, 0, &selector) == 0);
      selector = 9;
      break;
    default:  // no byte
      REQUIRE(set(kOn, 0, 0, (volatile char*)64) == 0);
      break;
  }
  call(SYS_getpid, 0);
  return 1;
}
