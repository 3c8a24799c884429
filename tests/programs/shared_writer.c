// Shares memory with another process that keeps writing: a mapped file, POSIX shared memory, a
// memfd, anonymous memory and System V memory. What it reads must not stay stale.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>

#include "tests/programs/require.h"

typedef struct {
  atomic_uint grows;       // the other writes it all the time, without system calls
  atomic_uint stop;        // we write it, the other reads
  uint32_t before, after;  // message, protected by `turn`
  atomic_uint turn;
} Shared;

static void write_until_told(Shared* shared) {
  for (uint32_t i = 1; atomic_load_explicit(&shared->stop, memory_order_relaxed) == 0; i++) {
    atomic_store_explicit(&shared->grows, i, memory_order_relaxed);
    if (atomic_load(&shared->turn) == 1) {
      shared->after = shared->before * 3;
      atomic_store(&shared->turn, 0);
    }
  }
  _exit(0);
}

static void use(const char* what, Shared* shared) {
  REQUIRE(shared != MAP_FAILED && shared != NULL);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) write_until_told(shared);
  // Plain loads, spinning: a copy made once would never change.
  for (int i = 0; i < 10; i++) {
    const unsigned seen = atomic_load_explicit(&shared->grows, memory_order_relaxed);
    while (atomic_load_explicit(&shared->grows, memory_order_relaxed) == seen) {
    }
  }
  uint64_t sum = 0;
  for (uint32_t i = 1; i <= 10; i++) {
    shared->before = i;
    atomic_store(&shared->turn, 1);
    while (atomic_load(&shared->turn) == 1) {
    }
    sum += shared->after;
  }
  atomic_store(&shared->stop, 1);
  waitpid(child, NULL, 0);
  printf("%s: grew, sum %llu\n", what, (unsigned long long)sum);
  fflush(stdout);
}

static void* map(int fd) {
  REQUIRE(fd >= 0 && ftruncate(fd, 4096) == 0);
  void* memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory;
}

int main(void) {
  char path[] = "/tmp/shared_writer.XXXXXX";
  use("file", map(mkstemp(path)));
  unlink(path);
  char name[40];
  snprintf(name, sizeof(name), "/shared_writer.%d", getpid());
  use("shm_open", map(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600)));
  shm_unlink(name);
  use("memfd", map(memfd_create("shared_writer", 0)));
  use("anonymous", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  Shared* system_v = shmat(segment, NULL, 0);
  shmctl(segment, IPC_RMID, NULL);
  use("System V", system_v);
  return 0;
}
