// Maps memory at addresses that no kernel chooses, and uses it.

#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

#define PAGE 4096
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

static void use(char* place, size_t bytes) {
  for (size_t i = 0; i < bytes; i += PAGE) place[i] += (char)(i / PAGE + 1);
  unsigned sum = 0;
  for (size_t i = 0; i < bytes; i += PAGE) sum = sum * 31 + (unsigned char)place[i];
  printf("%p: %08x\n", (void*)place, sum);
}

int main(int argc, char** argv) {
  char* const far_places[] = {(char*)0x2000000000, (char*)0x100000000000, (char*)0x555000000000};
  const size_t bytes = 4096ul * PAGE;
  printf("begins\n");
  fflush(stdout);
  if (argc > 1) {
    char* const near = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);
    REQUIRE(near != MAP_FAILED);
    near[PAGE] = 7;
    REQUIRE(mremap(near, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, far_places[1]) ==
            far_places[1]);
    use(far_places[1], bytes);
    return 0;
  }
  for (int i = 0; i < 3; i++) {
    REQUIRE(mmap(far_places[i], bytes, PROT_READ | PROT_WRITE, ANONYMOUS | MAP_FIXED, -1, 0) ==
            far_places[i]);
    use(far_places[i], bytes);
  }
  return 0;
}
