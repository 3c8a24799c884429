// A thread whose id is in `word` as long as it lives: the kernel stores and clears it. Others spin
// until it is gone.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/programs/require.h"

// All that the thread writes to is in this one page.
static struct {
  volatile pid_t word;
  volatile long rounds[3];  // of the thread, and of those that wait for its end
  char stack[3 << 10] __attribute__((aligned(16)));
} here __attribute__((aligned(4096)));

// Its last call is the sixteenth.
static int works(void* argument) {
  while (here.rounds[0] < 100000) here.rounds[0] = here.rounds[0] + 1;
  for (int i = 0; i < 15; ++i) syscall(SYS_getppid);
  return 0;
}

static void* spins(void* argument) {
  volatile long* const own = argument;
  while (here.word == 0) *own = *own + 1;
  while (here.word != 0) *own = *own + 1;
  return NULL;
}

int main(void) {
  pthread_t other;
  REQUIRE(pthread_create(&other, NULL, &spins, (void*)&here.rounds[1]) == 0);
  const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                    CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  pid_t* const word = (pid_t*)&here.word;
  REQUIRE(clone(&works, here.stack + sizeof(here.stack), flags, NULL, word, NULL, word) > 0);
  spins((void*)&here.rounds[2]);
  REQUIRE(pthread_join(other, NULL) == 0);
  printf("it has ended\n");
  return 0;
}
