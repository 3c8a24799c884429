// Has memory that cannot be compressed, and says where and "ready"; ends with its input.
//
//   large MEGABYTES [shared]

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const size_t bytes = strtoul(argv[1], NULL, 10) << 20;
  uint64_t* const words = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                               MAP_ANONYMOUS | (argc > 2 ? MAP_SHARED : MAP_PRIVATE), -1, 0);
  if (words == MAP_FAILED) return 2;
  uint64_t seed = 1;
  for (size_t i = 0; i < bytes / 8; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    words[i] = seed;
  }
  printf("%p\nready\n", (void*)words);
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  return 0;
}
