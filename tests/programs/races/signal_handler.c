// A handler looks at a queue that the program is changing when the signal comes. Another process
// sends it.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/races/work.h"

static volatile long queued, first, last;  // always queued == last - first
static volatile sig_atomic_t looked;

static void look(int signal) {
  (void)signal;
  if (queued != last - first) abort();
  looked++;
}

int main(void) {
  signal(SIGUSR1, look);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 3; i++) {
      work(i, 4000);
      kill(parent, SIGUSR1);
    }
    _exit(0);
  }
  uint64_t state = 1;
  for (int i = 0; i < 30; i++) {
    state = work(state, 1000);
    last = last + 1;
    queued = queued + 1;
    state = work(state, 200);
    first = first + 1;
    queued = queued - 1;
  }
  int status;
  while (waitpid(child, &status, 0) < 0) {
  }
  return 0;
}
