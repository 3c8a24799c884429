// Everything that changes the address space, and memory that others write.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static uint32_t sum(const unsigned char* bytes, size_t size) {
  uint32_t result = 0;
  for (size_t i = 0; i < size; i++) result = result * 31 + bytes[i];
  return result;
}

int main(void) {
  const size_t size = 1 << 20;
  unsigned char* map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < size; i++) map[i] = (unsigned char)(i * 7);
  printf("filled %08x\n", sum(map, size));

  // The same addresses with new contents.
  munmap(map, size / 2);
  unsigned char* again =
      mmap(map, size / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  printf("same place %d, %08x\n", again == map, sum(map, size));

  mprotect(map, 4096, PROT_READ);
  printf("read-only %08x\n", sum(map, 4096));
  mprotect(map, 4096, PROT_READ | PROT_WRITE);
  map[17] = 99;

  unsigned char* moved = mremap(map, size, size * 4, MREMAP_MAYMOVE);
  moved[size * 3] = 5;
  printf("remapped %08x\n", sum(moved, size * 4));
  moved = mremap(moved, size * 4, size, 0);
  printf("shrunk %08x\n", sum(moved, size));

  madvise(moved, 65536, MADV_DONTNEED);
  printf("dropped %08x\n", sum(moved, size));

  char* top = sbrk(0);
  char* grown = sbrk(300000);
  memset(grown, 3, 300000);
  printf("brk %d %08x\n", grown == top, sum((unsigned char*)grown, 300000));
  sbrk(-300000);

  // A private and a shared mapping of one file.
  char name[] = "/tmp/hindsight_maps_XXXXXX";
  int fd = mkstemp(name);
  unlink(name);
  char block[8192];
  memset(block, 'f', sizeof(block));
  if (write(fd, block, sizeof(block)) != sizeof(block)) return 1;
  unsigned char* shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  unsigned char* private_map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  printf("file %08x %08x\n", sum(shared, 8192), sum(private_map, 8192));
  private_map[4096] = 'p';
  shared[0] = 's';
  shared[5000] = 's';  // unseen in private_map: that page is copied already
  if (pwrite(fd, "w", 1, 10) != 1) return 1;
  printf("file %08x %08x\n", sum(shared, 8192), sum(private_map, 8192));

  // One memory at two addresses.
  unsigned char* alias = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  uint32_t seen = 0;
  for (int i = 0; i < 1000; i++) {
    alias[i] = (unsigned char)i;
    seen = seen * 31 + alias[i];
  }
  msync(alias, 8192, MS_SYNC);
  printf("alias %08x\n", seen);

  // The kernel as the writer.
  char left[100], right[5000];
  struct iovec parts[2] = {{left, sizeof(left)}, {right, sizeof(right)}};
  lseek(fd, 0, SEEK_SET);
  ssize_t got = readv(fd, parts, 2);
  printf("readv %zd %08x\n", got, sum((unsigned char*)right, sizeof(right)));

  // A large stack frame, grown by touching it downward.
  volatile unsigned char stack_block[900000];
  for (int i = (int)sizeof(stack_block) - 1; i >= 0; i -= 512) stack_block[i] = (unsigned char)i;
  printf("stack %d\n", stack_block[sizeof(stack_block) - 1]);
  return 0;
}
