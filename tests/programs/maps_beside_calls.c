// A thread that changes the memory map while others do nothing but make system calls.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "require.h"

enum { kCallers = 6, kRounds = 100, kBytes = 1 << 16 };

static atomic_int stop;

static void* call_all_the_time(void* unused) {
  (void)unused;
  while (!atomic_load(&stop)) syscall(SYS_getppid);
  return NULL;
}

int main(void) {
  pthread_t callers[kCallers];
  for (int i = 0; i < kCallers; i++) {
    REQUIRE(pthread_create(&callers[i], NULL, call_all_the_time, NULL) == 0);
  }
  int sum = 0;
  for (int i = 0; i < kRounds; i++) {
    char* memory =
        mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
