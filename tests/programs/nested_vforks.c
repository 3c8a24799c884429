// A child of vfork, in its parent's memory, makes processes: one that borrows the memory as well,
// one that gets its own, and one that executes a program.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

static volatile int shared;
static char* program;

static int ending(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

static __attribute__((noinline)) int borrow(int depth) {
  const pid_t child = vfork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ++shared;
    _exit(depth == 0 ? 1 : 1 + borrow(depth - 1));
  }
  return ending(child);
}

static __attribute__((noinline)) int separate(void) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ++shared;  // its own
    _exit(3);
  }
  return ending(child);
}

static __attribute__((noinline)) int execute(void) {
  const pid_t child = vfork();
  REQUIRE(child >= 0);
  if (child == 0) {
    execl("/proc/self/exe", program, "executed", NULL);
    _exit(1);
  }
  return ending(child);
}

int main(int argc, char** argv) {
  program = argv[0];
  if (argc == 2) return 20;
  const int borrowed = borrow(4);
  printf("%d borrowed, %d\n", borrowed, shared);
  const pid_t child = vfork();
  if (child == 0) _exit(separate() + execute());
  printf("%d\n", ending(child));
  printf("%d\n", shared);
  return 0;
}
