// Maps one file after the other, each with bytes of its own: "files COUNT DIRECTORY". What it maps
// it reads, unmaps and removes.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBytes = 128 << 10 };

static uint64_t next = 1;
static uint64_t bytes[kBytes / 8];

static int WriteFile(const char* path) {
  for (size_t i = 0; i < kBytes / 8; ++i) {
    next ^= next << 13;
    next ^= next >> 7;
    next ^= next << 17;
    bytes[i] = next;
  }
  const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || write(fd, bytes, kBytes) != kBytes) exit(2);
  return fd;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const long count = atol(argv[1]);
  uint64_t sum = 0;
  for (long i = 0; i < count; ++i) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/file%ld", argv[2], i);
    const int fd = WriteFile(path);
    const volatile uint64_t* map = mmap(NULL, kBytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) return 2;
    close(fd);
    for (size_t page = 0; page < kBytes / 4096; ++page) sum += map[page * 512 + page];
    munmap((void*)map, kBytes);
    unlink(path);
  }
  printf("done %llu\n", (unsigned long long)sum);
  return 0;
}
