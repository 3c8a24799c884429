// Children die by signals, with and without a core; the program itself by the signal SIGQUIT.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

static int* volatile bad_address = (int*)8;

static void dies_by(int number, int with_core) {
  const struct rlimit limit = {with_core ? 1 << 20 : 0, with_core ? 1 << 20 : 0};
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setrlimit(RLIMIT_CORE, &limit);
    if (number == SIGABRT) abort();
    if (number == SIGSEGV) *(volatile int*)bad_address = 1;
    raise(number);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("signal %d, core %d\n", WTERMSIG(status), WCOREDUMP(status) != 0);
}

int main(void) {
  // Cores land here, and go with it.
  char directory[] = "/tmp/core_death.XXXXXX";
  REQUIRE(mkdtemp(directory) != NULL && chdir(directory) == 0);
  for (int with_core = 0; with_core < 2; with_core++) {
    dies_by(SIGQUIT, with_core);
    dies_by(SIGABRT, with_core);
    dies_by(SIGSEGV, with_core);
    dies_by(SIGKILL, with_core);
    dies_by(SIGTERM, with_core);
  }
  REQUIRE(system("rm -rf \"$PWD\"") == 0);
  fflush(stdout);
  raise(SIGQUIT);
  return 1;
}
