// A debugger in small: traces a child, steps it, reads and writes its registers and memory.
//
//   uses_ptrace          a child of fork that has itself traced
//   uses_ptrace vfork    a child of vfork that has itself traced, and executes a program
//   uses_ptrace threads  a child with threads that compute, wait, and make processes: it ends as if
//                        nobody had traced it
//   uses_ptrace attach   a child that waits, and one that computes: they run what their files have
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

static volatile long variable = 1;

static int step_child(void) {
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

static int trace_child_of_vfork(void) {
  const pid_t child = vfork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
    execl("/bin/sh", "sh", "-c", "exit 5", NULL);
    _exit(78);
  }
  int status;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
  REQUIRE(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
  REQUIRE(waitpid(child, &status, 0) == child);
  printf("ended with %d\n", WEXITSTATUS(status));
  return 0;
}

// Whether the address is in what the process has mapped of a file in a folder, as programs and
// libraries are.
static int is_in_file(pid_t process, unsigned long long address) {
  char path[64], line[4096];
  snprintf(path, sizeof(path), "/proc/%d/maps", process);
  FILE* maps = fopen(path, "r");
  REQUIRE(maps != NULL);
  int found = 0;
  while (fgets(line, sizeof(line), maps) != NULL) {
    unsigned long long start, end;
    REQUIRE(sscanf(line, "%llx-%llx", &start, &end) == 2);
    const char* file = strchr(line, '/');
    if (address < start || address >= end || file == NULL) continue;
    found = strncmp(file, "/memfd:", strlen("/memfd:")) != 0;
  }
  fclose(maps);
  return found;
}

static void compute(void) {
  for (volatile unsigned i = 0;; i++) {
  }
}

static void wait_for_nothing(void) {
  while (1) pause();
}

static void attach_to(void (*work)(void), const char* name) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(78);
  }
  usleep(200000);
  int status;
  REQUIRE(ptrace(PTRACE_ATTACH, child, NULL, NULL) == 0);
  REQUIRE(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
  struct user_regs_struct registers;
  REQUIRE(ptrace(PTRACE_GETREGS, child, NULL, &registers) == 0);
  printf("who %s is in %s\n", name, is_in_file(child, registers.rip) ? "its file" : "no file");
  REQUIRE(ptrace(PTRACE_DETACH, child, NULL, NULL) == 0);
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, &status, 0) == child);
}

static int hold[2];

static void* compute_a_while(void* unused) {
  for (volatile unsigned i = 0; i < 50000000; i++) {
  }
  return unused;
}

static void* wait_for_byte(void* unused) {
  char byte;
  while (read(hold[0], &byte, 1) != 1) REQUIRE(errno == EINTR);
  return unused;
}

static void* make_processes(void* unused) {
  for (int i = 0; i < 20; i++) {
    const pid_t child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", NULL);
      _exit(78);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
  }
  return unused;
}

static int have_threads(void) {
  void* (*const works[])(void*) = {compute_a_while, make_processes, wait_for_byte, wait_for_byte};
  pthread_t threads[4];
  REQUIRE(pipe(hold) == 0);
  for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&threads[i], NULL, works[i], NULL) == 0);
  for (int i = 0; i < 2; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
  REQUIRE(write(hold[1], "ab", 2) == 2);
  for (int i = 2; i < 4; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
  return 3;
}

// Stops all tasks of the process, and lets them go. Its status if it has ended meanwhile, else -1.
static int look_at_all(pid_t process) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/task", process);
  DIR* folder = opendir(path);
  REQUIRE(folder != NULL);
  pid_t tasks[16];
  int count = 0;
  struct dirent* entry;
  while ((entry = readdir(folder)) != NULL && count < 16) {
    const pid_t task = atoi(entry->d_name);
    if (task == 0 || ptrace(PTRACE_SEIZE, task, NULL, NULL) != 0) continue;
    ptrace(PTRACE_INTERRUPT, task, NULL, NULL);
    tasks[count++] = task;
  }
  closedir(folder);
  int ended = -1;
  for (int i = 0; i < count; i++) {
    int status;
    if (waitpid(tasks[i], &status, __WALL) != tasks[i]) continue;
    if (!WIFSTOPPED(status)) {
      if (tasks[i] == process) ended = status;
      continue;
    }
    const long signal = status >> 16 != 0 ? 0 : WSTOPSIG(status);
    ptrace(PTRACE_DETACH, tasks[i], NULL, (void*)signal);
  }
  return ended;
}

static int trace_threads(void) {
  for (int i = 0; i < 5; i++) {
    const pid_t child = fork();
    if (child == 0) _exit(have_threads());
    usleep(30000 + 10000 * i);
    int status = look_at_all(child);
    if (status == -1) REQUIRE(waitpid(child, &status, 0) == child);
    printf("ended with %x\n", status);
  }
  return 0;
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("before\n");
  if (argc < 2) return step_child();
  if (strcmp(argv[1], "vfork") == 0) return trace_child_of_vfork();
  if (strcmp(argv[1], "threads") == 0) return trace_threads();
  attach_to(&wait_for_nothing, "waits");
  attach_to(&compute, "computes");
  return 0;
}
