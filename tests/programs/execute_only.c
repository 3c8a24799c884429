// Memory that may only be executed: with protection keys the processor does not let it be read.
//
//   execute_only        prints what loads from it, in and after handlers, do; and what it holds
//                       once it may be read again
//   execute_only keys   prints whether there is a protection key to be had
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/programs/require.h"

#define PAGE 4096
#define PAGES 6
#define ROUNDS 40

static sigjmp_buf back;
static char* pages;
static unsigned long sum;

static void Jump(int signal) { siglongjmp(back, signal); }
static void Nothing(int signal) { sum += (unsigned long)signal; }

// What a load does: 'r', or 'f' if it faults.
static char Load(const volatile char* at) {
  if (sigsetjmp(back, 1) != 0) return 'f';
  sum = sum * 31 + (unsigned char)*at;
  return 'r';
}

static void Work(void) {
  for (volatile int i = 0; i < 3000; i++) sum += (unsigned long)i;
}

static void Round(int round) {
  char* const page = pages + rand() % PAGES * PAGE;
  char told[5] = {0};
  memset(page + rand() % 3000, round, 1 + (size_t)rand() % 1000);
  REQUIRE(mprotect(page, PAGE, PROT_EXEC) == 0);
  Work();  // a segment may begin here
  told[0] = Load(page + 7);
  told[1] = Load(NULL);
  REQUIRE(raise(SIGUSR1) == 0);
  told[2] = Load(page + 8);
  if (rand() % 3 == 0) REQUIRE(madvise(page, PAGE, MADV_DONTNEED) == 0);
  Work();
  told[3] = Load(page + 9);
  REQUIRE(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
  for (int i = 0; i < PAGE; i++) sum = sum * 31 + (unsigned char)page[i];
  printf("%d %s %lx\n", round, told, sum);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "keys") == 0) {
    const long key = syscall(SYS_pkey_alloc, 0, 0);
    printf("%s\n", key >= 0 ? "a key" : errno == ENOSPC ? "none left" : "no such call");
    return 0;
  }
  REQUIRE(signal(SIGSEGV, &Jump) != SIG_ERR && signal(SIGUSR1, &Nothing) != SIG_ERR);
  pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  for (int round = 1; round <= ROUNDS; round++) Round(round);
  return 0;
}
