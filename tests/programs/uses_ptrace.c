// A debugger in small: traces a child, steps it, reads and writes its registers and memory.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

static volatile long variable = 1;

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("before\n");
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
    raise(SIGSTOP);
    for (volatile int i = 0; i < 1000; i++) {
    }
    _exit(variable == 1234 ? 3 : 4);
  }
  int status;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (!WIFSTOPPED(status)) {
    printf("cannot trace\n");
    return 77;
  }
  REQUIRE(ptrace(PTRACE_PEEKDATA, child, &variable, NULL) == 1);
  REQUIRE(ptrace(PTRACE_POKEDATA, child, &variable, (void*)1234) == 0);
  struct user_regs_struct registers;
  int moved = 0;
  for (int i = 0; i < 100; i++) {
    REQUIRE(ptrace(PTRACE_GETREGS, child, NULL, &registers) == 0);
    const unsigned long long pc = registers.rip;
    REQUIRE(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
    REQUIRE(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    REQUIRE(ptrace(PTRACE_GETREGS, child, NULL, &registers) == 0);
    moved += registers.rip != pc;
  }
  REQUIRE(ptrace(PTRACE_DETACH, child, NULL, NULL) == 0);
  REQUIRE(waitpid(child, &status, 0) == child);
  printf("stepped %s, ended with %d\n", moved > 90 ? "on" : "not", WEXITSTATUS(status));
  return 0;
}
