// Two processes take numbers from a file without locking it: both may get the same.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/races/work.h"

enum { kEach = 2 };

static int take(int file) {
  int next = 0;
  if (pread(file, &next, sizeof(next), 0) != sizeof(next)) exit(2);
  next++;
  if (pwrite(file, &next, sizeof(next), 0) != sizeof(next)) exit(2);
  return next;
}

int main(void) {
  char name[] = "/tmp/two_processes_XXXXXX";
  const int file = mkstemp(name);
  if (file < 0 || unlink(name) != 0) return 2;
  int number = 0;
  if (pwrite(file, &number, sizeof(number), 0) != sizeof(number)) return 2;
  const pid_t child = fork();
  for (int i = 0; i < kEach; i++) {
    work(i, child == 0 ? 20000 : 3000);
    take(file);
  }
  if (child == 0) _exit(0);
  int status;
  waitpid(child, &status, 0);
  if (pread(file, &number, sizeof(number), 0) != sizeof(number)) return 2;
  if (number == 2 * kEach) return 0;
  printf("%d numbers of %d\n", number, 2 * kEach);
  return 1;
}
