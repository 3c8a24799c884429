// Four processes connected by pipes: numbers are made, squared, sorted out and added.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

enum { kNumbers = 3000, kStages = 4 };

static void make(void) {
  for (int i = 1; i <= kNumbers; i++) printf("%d\n", i);
}

static void square(void) {
  long long number;
  while (scanf("%lld", &number) == 1) printf("%lld\n", number * number);
}

static void keep_some(void) {
  long long number;
  while (scanf("%lld", &number) == 1) {
    if (number % 7 == 2) printf("%lld\n", number);
  }
}

static void add(void) {
  long long number, sum = 0, count = 0;
  while (scanf("%lld", &number) == 1) {
    sum += number;
    count++;
  }
  printf("%lld numbers, sum %lld\n", count, sum);
}

int main(void) {
  void (*const stages[kStages])(void) = {make, square, keep_some, add};
  pid_t children[kStages];
  int from = 0;  // what the next stage reads
  for (int i = 0; i < kStages; i++) {
    int fds[2] = {-1, -1};
    if (i + 1 < kStages) REQUIRE(pipe(fds) == 0);
    children[i] = fork();
    if (children[i] == 0) {
      dup2(from, 0);
      if (fds[1] >= 0) {
        dup2(fds[1], 1);
        close(fds[0]);
        close(fds[1]);
      }
      stages[i]();
      exit(40 + i);
    }
    if (from > 0) close(from);
    if (fds[1] >= 0) close(fds[1]);
    from = fds[0];
  }
  for (int i = 0; i < kStages; i++) {
    int status;
    REQUIRE(waitpid(children[i], &status, 0) == children[i]);
    printf("stage %d ended with %d\n", i, WEXITSTATUS(status));
  }
  return 0;
}
