// mapped_file PATH [child]
//
// Stores to the file, which it makes, by way of a shared mapping, or has a child do so, and has a
// private one of it, of which it reads the second page. Prints where that one is.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libhindsight/hindsight.h"

enum { kPage = 4096, kPages = 64, kSnapshots = 4 };

static uint8_t* map(int fd) {
  void* const file = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (file == MAP_FAILED) exit(1);
  return file;
}

static void store(uint8_t* file, int round) { memset(file + kPage, round, kPage); }

// Stores what it is asked to, and says when it has.
static void serve(int fd, int asked, int done) {
  uint8_t* const file = map(fd);
  uint8_t round;
  while (read(asked, &round, 1) == 1) {
    store(file, round);
    if (write(done, &round, 1) != 1) break;
  }
  _exit(0);
}

int main(int argc, char** argv) {
  const int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT | O_EXCL, 0600) : -1;
  int ask[2], answer[2];
  if (fd < 0 || ftruncate(fd, kPages * kPage) != 0 || pipe(ask) != 0 || pipe(answer) != 0) return 1;
  if (argc > 2 && fork() == 0) {
    close(ask[1]);
    serve(fd, ask[0], answer[1]);
  }
  uint8_t* const own = argc > 2 ? NULL : map(fd);
  volatile uint8_t* const copy = mmap(NULL, kPages * kPage, PROT_READ, MAP_PRIVATE, fd, 0);
  if (copy == MAP_FAILED) return 1;
  printf("%p\n", (void*)copy);
  fflush(stdout);
  for (int round = 1; round <= kSnapshots; round++) {
    const uint8_t byte = (uint8_t)round;
    uint8_t got = byte;
    if (own != NULL) {
      store(own, round);
    } else if (write(ask[1], &byte, 1) != 1 || read(answer[0], &got, 1) != 1) {
      return 1;
    }
    if (copy[kPage] != round) return 1;
    hs_snapshot("round");
  }
  return 0;
}
