// Changes the memory map, or with an argument makes children, while other threads, or other
// processes, do nothing but make system calls.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "require.h"

enum { kCallers = 6, kRounds = 100, kBytes = 1 << 16 };

static atomic_int stop;

static void* call_all_the_time(void* unused) {
  (void)unused;
  while (!atomic_load(&stop)) syscall(SYS_getppid);
  return NULL;
}

static pid_t start(void) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  return child;
}

static int children_beside_others(void) {
  enum { kOthers = 4, kChildren = 30 };
  pid_t others[kOthers];
  for (int i = 0; i < kOthers; i++) {
    others[i] = start();
    if (others[i] == 0) call_all_the_time(NULL);
  }
  int sum = 0;
  for (int i = 0; i < kChildren; i++) {
    const pid_t child = start();
    if (child == 0) _exit(1);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    sum += WEXITSTATUS(status);
  }
  for (int i = 0; i < kOthers; i++) {
    kill(others[i], SIGTERM);
    REQUIRE(waitpid(others[i], NULL, 0) == others[i]);
  }
  printf("%d\n", sum);
  return 0;
}

int main(int argc, char** argv) {
  (void)argv;
  if (argc > 1) return children_beside_others();
  pthread_t callers[kCallers];
  for (int i = 0; i < kCallers; i++) {
    REQUIRE(pthread_create(&callers[i], NULL, call_all_the_time, NULL) == 0);
  }
  int sum = 0;
  for (int i = 0; i < kRounds; i++) {
    char* memory = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    memory[i] = 1;
    REQUIRE(mprotect(memory, 4096, PROT_READ) == 0);
    sum += memory[i];
    REQUIRE(munmap(memory, kBytes) == 0);
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < kCallers; i++) REQUIRE(pthread_join(callers[i], NULL) == 0);
  printf("%d\n", sum);
  return 0;
}
