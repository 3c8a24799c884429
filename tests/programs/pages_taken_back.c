// Reads a file that it has mapped, and a child has the kernel take the pages back, as it does by
// itself when memory is short: they are in nobody's page tables when the program ends.
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kPage = 4096, kPageOut = 21 };  // MADV_PAGEOUT
// A large file that is rarely mapped by others: what several have mapped stays.
static const char kFile[] = "/usr/bin/perl";

static void take_back(void* start, size_t bytes) {
  const int parent = (int)syscall(SYS_pidfd_open, getppid(), 0);
  struct iovec range = {.iov_base = start, .iov_len = bytes};
  syscall(SYS_process_madvise, parent, &range, 1, kPageOut, 0);  // if it is permitted
}

int main(void) {
  const int fd = open(kFile, O_RDONLY);
  struct stat file;
  REQUIRE(fd >= 0 && fstat(fd, &file) == 0);
  const size_t bytes = (size_t)file.st_size / kPage * kPage;
  volatile const uint8_t* const map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  REQUIRE(map != MAP_FAILED);
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes; i += kPage) sum = sum * 31 + map[i];
  const pid_t child = fork();
  if (child == 0) {
    take_back((void*)map, bytes);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  printf("%llx\n", (unsigned long long)sum);
  return 0;
}
