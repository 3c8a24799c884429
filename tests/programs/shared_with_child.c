// A child writes to memory that it shares with its parent, which has seen it before and waits.
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

static int* shared;

__attribute__((noinline)) void look(int round) { __asm__ volatile("" ::"r"(round) : "memory"); }

int main(void) {
  shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  shared[0] = shared[100] = shared[1500] = 1;
  for (int round = 2; round < 5; round++) {
    if (fork() == 0) {
      shared[0] = shared[100] = shared[1500] = round;
      _exit(0);
    }
    wait(NULL);
    look(round);
  }
  printf("%d %d %d\n", shared[0], shared[100], shared[1500]);
}
