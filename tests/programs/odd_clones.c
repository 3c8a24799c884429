// Tasks made with arguments that are wrong, or of a kernel to come.
#define _GNU_SOURCE
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

struct longer_args {
  struct clone_args known;
  char unknown[64];
};

static void show(const char* what, long result) {
  if (result == 0) _exit(7);
  if (result < 0) {
    printf("%s: %s\n", what, strerror(errno));
    return;
  }
  int status = 0;
  REQUIRE(waitpid((pid_t)result, &status, __WALL) == result);
  printf("%s: ended with %x\n", what, (unsigned)status);
}

static void try_clone3(const char* what, const struct longer_args* args, size_t size) {
  show(what, syscall(SYS_clone3, args, size));
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  struct longer_args args = {.known = {.exit_signal = SIGCHLD}};
  try_clone3("as known", &args, sizeof(args.known));
  try_clone3("first version", &args, CLONE_ARGS_SIZE_VER0);
  try_clone3("odd size", &args, CLONE_ARGS_SIZE_VER0 + 1);
  try_clone3("too short", &args, CLONE_ARGS_SIZE_VER0 - 1);
  try_clone3("longer", &args, sizeof(args));
  args.unknown[50] = 1;
  try_clone3("longer, not empty", &args, sizeof(args));
  try_clone3("much too long", &args, 5000);
  try_clone3("nowhere", (struct longer_args*)8, sizeof(args.known));
  args = (struct longer_args){.known = {.exit_signal = SIGCHLD, .stack = 0x1000}};
  try_clone3("stack without size", &args, sizeof(args.known));
  args = (struct longer_args){.known = {.exit_signal = SIGCHLD, .stack_size = 0x1000}};
  try_clone3("size without stack", &args, sizeof(args.known));
  args = (struct longer_args){.known = {.exit_signal = SIGCHLD, .flags = CLONE_SIGHAND}};
  try_clone3("handlers without memory", &args, sizeof(args.known));
  args = (struct longer_args){.known = {.exit_signal = 0x1ff}};
  try_clone3("no such signal", &args, sizeof(args.known));
  show("thread without handlers", syscall(SYS_clone, CLONE_THREAD | SIGCHLD, 0, 0, 0, 0));
  show("handlers without memory", syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0));
  return 0;
}
