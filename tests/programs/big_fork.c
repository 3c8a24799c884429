// Touches a hundred megabytes, then forks: parent and child change their copies.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

enum { kPages = 25600, kPage = 4096 };

static uint64_t sum(const char* memory, int step) {
  uint64_t result = 0;
  for (int i = 0; i < kPages; i += step) {
    result = result * 31 + *(const uint32_t*)(const void*)(memory + (size_t)i * kPage + 64);
  }
  return result;
}

static void fill(char* memory, int step, uint32_t seed) {
  for (int i = 0; i < kPages; i += step) {
    *(uint32_t*)(void*)(memory + (size_t)i * kPage + 64) = seed + (uint32_t)i * 2654435761u;
  }
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  char* memory = mmap(NULL, (size_t)kPages * kPage, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  fill(memory, 1, 1);
  int to_child[2];
  REQUIRE(pipe(to_child) == 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    REQUIRE(read(to_child[0], &byte, 1) == 1);  // the parent has changed its copy
    printf("child: %016llx\n", (unsigned long long)sum(memory, 5));
    fill(memory, 10, 2);
    printf("child, changed: %016llx\n", (unsigned long long)sum(memory, 5));
    _exit(3);
  }
  fill(memory, 7, 9);
  REQUIRE(write(to_child[1], "x", 1) == 1);
  int status;
  REQUIRE(waitpid(child, &status, 0) == child);
  printf("parent: %016llx, child ended with %d\n", (unsigned long long)sum(memory, 1),
         WEXITSTATUS(status));
  return 0;
}
