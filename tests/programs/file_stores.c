// Files that are stored to by way of mappings, after their times have changed for the last time: by
// the program itself between others that map one privately, and by another process beside it.
// Prints sums of what is read.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kPage = 4096, kPages = 4, kBytes = kPages * kPage };

static uint8_t* map(int fd, int protection, int flags) {
  void* const memory = mmap(NULL, kBytes, protection, flags, fd, 0);
  REQUIRE(memory != MAP_FAILED);
  return memory;
}

static uint32_t sum_of(const volatile uint8_t* bytes) {
  uint32_t sum = 0;
  for (int i = 0; i < kBytes; i++) sum = sum * 31 + bytes[i];
  return sum;
}

static uint64_t work(int times) {
  volatile uint64_t sum = 0;
  for (int i = 0; i < times; i++) sum += (uint64_t)i;
  return sum;
}

static void read_in_another_program(const char* self, const char* path) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    execl(self, self, path, NULL);
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

static uint32_t store_and_read(const char* self, int fd, const char* path) {
  uint8_t* const memory = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
  for (int page = 0; page < kPages; page++) memory[page * kPage] = 1;
  uint32_t sum = 0;
  for (int round = 0; round < 12; round++) {
    for (int page = 0; page < kPages; page++) memory[page * kPage + round] += (uint8_t)(round + 1);
    work(100000);
    sum = sum * 31 + sum_of(memory);
    if (round % 4 == 0) read_in_another_program(self, path);
  }
  munmap(memory, kBytes);
  return sum;
}

// Stores now and then without system calls in between; what it reads in the end says how often.
static uint32_t read_beside_a_writer(int fd) {
  int begun[2];
  REQUIRE(pipe(begun) == 0);
  const pid_t writer = fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {
    volatile uint8_t* const memory = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
    memory[100] = 1;
    REQUIRE(write(begun[1], "", 1) == 1);
    for (int i = 2; i < 6; i++) {
      usleep(30000);
      memory[100] = (uint8_t)i;
    }
    _exit(0);
  }
  char byte;
  REQUIRE(read(begun[0], &byte, 1) == 1);
  const volatile uint8_t* const memory = map(fd, PROT_READ, MAP_SHARED);
  while (memory[100] != 5) work(1000);
  waitpid(writer, NULL, 0);
  return sum_of(memory);
}

static int make(char* path) {
  const int fd = mkstemp(path);
  REQUIRE(fd >= 0 && ftruncate(fd, kBytes) == 0);
  return fd;
}

int main(int argc, char** argv) {
  if (argc == 2) {
    const int fd = open(argv[1], O_RDONLY);
    REQUIRE(fd >= 0);
    printf("%u\n", (unsigned)sum_of(map(fd, PROT_READ, MAP_PRIVATE)));
    return 0;
  }
  char path[] = "/tmp/file_stores.XXXXXX", other[] = "/tmp/file_stores.XXXXXX";
  const uint32_t own = store_and_read(argv[0], make(path), path);
  printf("own %u, beside %u\n", (unsigned)own, (unsigned)read_beside_a_writer(make(other)));
  unlink(path);
  unlink(other);
  return 0;
}
