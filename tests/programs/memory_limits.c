// Limits its own memory: what does not go beyond the limits goes on, the rest fails, and a program
// that it executes (with the argument "execute") has them as well.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

static const size_t mib = 1 << 20;

static char* map(size_t bytes, int rights, int flags) {
  return mmap(NULL, bytes, rights, flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void try_map(const char* what, size_t bytes, int rights, int flags) {
  char* at = map(bytes, rights, flags);
  if (at == MAP_FAILED) {
    printf("  %s: %s\n", what, strerror(errno));
    return;
  }
  if ((rights & PROT_WRITE) != 0) memset(at, 7, bytes > mib ? mib : bytes);
  printf("  %s: mapped\n", what);
  REQUIRE(munmap(at, bytes) == 0);
}

static void* touch(void* argument) {
  volatile char frame[100000];
  for (size_t i = 0; i < sizeof(frame); i += 1000) frame[i] = (char)i;
  return argument;
}

static void try_thread(size_t stack_bytes) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, touch, NULL);
  printf("  thread: %s\n", strerror(error));
  if (error == 0) pthread_join(thread, NULL);
}

static void try_everything(void) {
  try_map("little", 4 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  try_map("much", 1024 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  try_map("much shared", 1024 * mib, PROT_READ | PROT_WRITE, MAP_SHARED);
  try_map("much without rights", 1024 * mib, PROT_NONE, MAP_PRIVATE);
  try_thread(mib);
  try_thread(512 * mib);
  char* const small = map(4 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  REQUIRE(small != MAP_FAILED);
  char* const grown = mremap(small, 4 * mib, 512 * mib, MREMAP_MAYMOVE);
  printf("  grown: %s\n", grown == MAP_FAILED ? strerror(errno) : "yes");
  char* const reserved = map(512 * mib, PROT_NONE, MAP_PRIVATE);
  if (reserved != MAP_FAILED) {
    printf("  little of it: %d\n", mprotect(reserved, 4 * mib, PROT_READ | PROT_WRITE));
    printf("  all of it: %d\n", mprotect(reserved, 512 * mib, PROT_READ | PROT_WRITE));
  }
  printf("  break: %d, %d\n", sbrk((intptr_t)mib) != (void*)-1, sbrk(512 << 20) != (void*)-1);
  void* const allocated = malloc(100 * mib);
  printf("  allocated: %d\n", allocated != NULL);
  free(allocated);
}

static void show(const char* name, int resource) {
  struct rlimit limit;
  REQUIRE(getrlimit(resource, &limit) == 0);
  printf("  %s: %lld of %lld\n", name, (long long)limit.rlim_cur, (long long)limit.rlim_max);
}

static void limit_to(int resource, rlim_t now, rlim_t most) {
  const struct rlimit limit = {now, most};
  const int result = setrlimit(resource, &limit);
  printf("  set: %s\n", result == 0 ? "yes" : strerror(errno));
}

static void try_limited(int resource, const char* executed) {
  limit_to(resource, 400 * mib, 2048 * mib);
  limit_to(resource, 4096 * mib, 2048 * mib);
  show("address space", RLIMIT_AS);
  show("data", RLIMIT_DATA);
  try_everything();
  limit_to(resource, 2048 * mib, 2048 * mib);
  try_map("much", 1024 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  limit_to(resource, 300 * mib, 300 * mib);
  struct rlimit before;
  const struct rlimit next = {200 * mib, 300 * mib};
  REQUIRE(prlimit(getpid(), resource, &next, &before) == 0);
  printf("  before: %lld\n", (long long)before.rlim_cur);
  printf("  nowhere: %d\n", prlimit(0, resource, (const struct rlimit*)8, NULL));
  fflush(stdout);
  if (fork() == 0) {
    try_map("child's", 4 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    try_map("child's", 1024 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    fflush(stdout);
    if (executed != NULL) execl(executed, executed, "executed", NULL);
    _exit(1);
  }
  int status;
  REQUIRE(wait(&status) > 0);
  printf("  child: %x\n", (unsigned)status);
}

// What it reads of itself is not what it writes.
static void read_own_map(void) {
  const struct rlimit limit = {1000, 1000};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  FILE* const file = fopen("/proc/self/maps", "r");
  REQUIRE(file != NULL);
  char line[1000];
  int lines = 0;
  while (fgets(line, sizeof(line), file) != NULL) ++lines;
  printf("own map: %d\n", lines > 5);
}

int main(int argc, char** argv) {
  const bool execute = argc > 1 && strcmp(argv[1], "execute") == 0;
  if (argc > 1 && !execute) {
    printf("%s\n", argv[1]);
    show("address space", RLIMIT_AS);
    show("data", RLIMIT_DATA);
    try_map("little", 4 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    try_map("much", 1024 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    return 3;
  }
  const int resources[] = {RLIMIT_AS, RLIMIT_DATA};
  for (int i = 0; i < 2; ++i) {
    printf("%s\n", i == 0 ? "address space" : "data");
    fflush(stdout);
    if (fork() == 0) {
      try_limited(resources[i], execute ? argv[0] : NULL);
      fflush(stdout);
      _exit(0);
    }
    int status;
    REQUIRE(wait(&status) > 0);
    printf("ended: %x\n", (unsigned)status);
  }
  read_own_map();
  return 0;
}
