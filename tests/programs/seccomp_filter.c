// Filters of system calls: an error, a signal, another thread's, a child's death.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

static volatile int trapped;

static void on_trap(int number, siginfo_t* info, void* context) {
  (void)context;
  trapped = number == SIGSYS && info->si_code == 1 ? info->si_syscall : -1;
}

static void install(int call, unsigned action) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {4, code};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
}

static void* asks(void* argument) {
  errno = 0;
  const long result = syscall(SYS_getpgrp);
  printf("other thread: %ld, error %d\n", result, errno);
  return argument;
}

// As the process sees it.
static void say_how_restricted(void) {
  FILE* file = fopen("/proc/self/status", "r");
  REQUIRE(file != NULL);
  char line[256];
  while (fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, "Seccomp", 7) == 0) printf("%s", line);
  }
  fclose(file);
  printf("mode %d\n", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
}

// Calls of whoever records the program, from within it.
static const int kOfRecorders[] = {
    SYS_futex,      SYS_mprotect,     SYS_madvise,   SYS_tgkill,        SYS_munmap,
    SYS_mmap,       SYS_userfaultfd,  SYS_mincore,   SYS_ioctl,         SYS_sched_yield,
    SYS_arch_prctl, SYS_rt_sigaction, SYS_nanosleep, SYS_rt_sigprocmask};

static void touch_memory(void) {
  static volatile char memory[1 << 22];
  for (size_t i = 0; i < sizeof(memory); i += 1000) memory[i] = (char)(memory[i] + i);
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  sigaction(SIGSYS, &action, NULL);
  setvbuf(stdout, NULL, _IOLBF, 0);
  // What libraries do to find out what the kernel knows.
  for (int bit = 0; bit < 8; ++bit) {
    errno = 0;
    const long asked = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1 << bit, NULL);
    printf("flag %d: %ld, error %d\n", bit, asked, errno);
  }
  install(SYS_getpgrp, SECCOMP_RET_ERRNO | 42);
  errno = 0;
  const long result = syscall(SYS_getpgrp);
  printf("refused: %ld, error %d\n", result, errno);
  pthread_t thread;
  pthread_create(&thread, NULL, asks, NULL);
  pthread_join(thread, NULL);
  install(SYS_getppid, SECCOMP_RET_TRAP);
  syscall(SYS_getppid);
  printf("trapped: %d\n", trapped == SYS_getppid);
  const pid_t child = fork();
  if (child == 0) {
    install(SYS_getuid, SECCOMP_RET_KILL_PROCESS);
    syscall(SYS_getuid);
    _exit(1);
  }
  int status;
  waitpid(child, &status, 0);
  printf("killed by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  say_how_restricted();
  const pid_t strict = fork();
  if (strict == 0) {
    for (size_t i = 0; i < sizeof(kOfRecorders) / sizeof(kOfRecorders[0]); ++i) {
      install(kOfRecorders[i], SECCOMP_RET_KILL_PROCESS);
    }
    touch_memory();
    _exit(5);
  }
  waitpid(strict, &status, 0);
  printf("what a recorder does is refused: status %d\n", status >> 8);
  return 0;
}
