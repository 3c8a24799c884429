// Has as many open files as it may have, closes all that it knows nothing of, and makes threads and
// processes all the same.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kAllThereMayBe = 70000 };

static volatile char memory[1 << 20];

static void* touch(void* argument) {
  for (size_t i = 0; i < sizeof(memory); i += 1000) memory[i] = (char)(memory[i] + 1);
  return argument;
}

static void try_everything(const char* when) {
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, touch, NULL) == 0);
  pthread_join(thread, NULL);
  const pid_t child = fork();
  if (child == 0) {
    touch(NULL);
    _exit(open("/dev/null", O_RDONLY) < 0 ? errno : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  printf("%s: child's status %x, memory %d\n", when, (unsigned)status, memory[1000]);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int file = 3; file < kAllThereMayBe; ++file) close(file);
  try_everything("without files");
  const struct rlimit none = {3, 3};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  try_everything("with all it may have");
  return 0;
}
