// Memory that comes, moves and goes; a stack that grows.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned Deep(unsigned depth) {
  volatile char frame[2000];
  memset((char*)frame, depth, sizeof(frame));
  unsigned below = depth == 0 ? 0 : Deep(depth - 1);
  return below + (unsigned char)frame[depth % sizeof(frame)];
}

int main(int argc, char** argv) {
  printf("recursion %u\n", Deep(2000));

  size_t size = 64 << 12;
  char* a = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < size; i += 4096) a[i] = i >> 12;
  a = mremap(a, size, 4 * size, MREMAP_MAYMOVE);
  printf("moved %d %d\n", a[4096 * 9], a[2 * size]);
  mprotect(a, 4096, PROT_READ);
  printf("still %d\n", a[0]);
  mprotect(a, 4096, PROT_READ | PROT_WRITE);
  a[0] = 77;
  madvise(a, size, MADV_DONTNEED);
  printf("forgotten %d\n", a[4096 * 9]);
  a[4096] = 5;
  char* again =
      mmap(a, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  printf("replaced %d\n", again[4096]);
  munmap(a, 4 * size);

  // A shared file mapping sees write(2), and read(2) sees it.
  char name[] = "/tmp/memory_games_XXXXXX";
  int fd = mkstemp(name);
  unlink(name);
  if (ftruncate(fd, 8192) != 0) return 1;
  char* shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  char* private = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
  strcpy(shared, "by store");
  char text[32] = "";
  if (pread(fd, text, 9, 0) != 9) return 1;
  printf("%s, %s\n", text, private);
  if (pwrite(fd, "by write", 9, 4096) != 9) return 1;
  printf("%s, %s\n", shared + 4096, private + 4096);

  // The heap grows and shrinks.
  unsigned sum = 0;
  for (int i = 0; i < 20; i++) {
    unsigned char* block = malloc(i * 50000 + 1);
    memset(block, i, i * 50000 + 1);
    sum += block[i * 50000];
    free(block);
  }
  printf("heap %u\n", sum);
  return 0;
}
