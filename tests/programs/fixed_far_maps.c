// Maps memory at addresses that no kernel chooses, or more of it than programs do, and uses it.

#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
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

// Takes no address but one that it asks for, as it does again and again.
static void insist(void) {
  const size_t bytes = 16ul * PAGE;
  char* const wanted = (char*)0x500000000000;
  for (int i = 0; i < 100000; i++) {
    char* const place = mmap(wanted, bytes, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);
    REQUIRE(place != MAP_FAILED);
    if (place == wanted) return use(place, bytes);
    REQUIRE(munmap(place, bytes) == 0);
  }
  printf("gives up\n");
}

// 4 TiB at any address, of which little is used.
static void reserve(void) {
  const size_t bytes = 1ul << 42;
  char* const place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(place != MAP_FAILED);
  for (int i = 0; i < 40; i++) place[(bytes / 41) * (size_t)i] = (char)i;
  printf("%d\n", place[(bytes / 41) * 39]);
}

// 1 GiB becomes 4 TiB: somewhere else, since there is no room after it.
static void grow(void) {
  const size_t bytes = 1ul << 30, more = 1ul << 42;
  const int flags = ANONYMOUS | MAP_NORESERVE;
  char* const place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  REQUIRE(place != MAP_FAILED);
  place[5] = 7;
  place[bytes - 1] = 9;
  char* const grown = mremap(place, bytes, more, MREMAP_MAYMOVE);
  REQUIRE(grown != MAP_FAILED);
  grown[more - 1] = 3;
  printf("%d %d %d\n", grown[5], grown[bytes - 1], grown[more - 1]);
}

// Some addresses, as run-time systems do, and then any.
static void try_some(void) {
  const size_t bytes = 16ul * PAGE;
  for (int i = 0; i < 300; i++) {
    char* const wanted = (char*)0x500000000000 + i * 0x1000000l;
    char* const place = mmap(wanted, bytes, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);
    REQUIRE(place != MAP_FAILED);
    REQUIRE(munmap(place, bytes) == 0);
  }
  char* const place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);
  REQUIRE(place != MAP_FAILED);
  place[PAGE] = 5;
  printf("takes any: %d\n", place[PAGE]);
}

// What no kernel gives, and what most give.
static void ask_for_much(void) {
  for (int bits = 30; bits < 63; bits += bits < 36 ? 1 : 3) {
    void* const place = mmap(NULL, 1ul << bits, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);
    printf("%d: %s\n", bits, place == MAP_FAILED ? strerror(errno) : "mapped");
    if (place != MAP_FAILED) REQUIRE(munmap(place, 1ul << bits) == 0);
  }
}

int main(int argc, char** argv) {
  char* const far_places[] = {(char*)0x2000000000, (char*)0x100000000000, (char*)0x555000000000};
  const size_t bytes = 4096ul * PAGE;
  printf("begins\n");
  fflush(stdout);
  if (argc > 1 && strcmp(argv[1], "insist") == 0) return insist(), 0;
  if (argc > 1 && strcmp(argv[1], "reserve") == 0) return reserve(), 0;
  if (argc > 1 && strcmp(argv[1], "grow") == 0) return grow(), 0;
  if (argc > 1 && strcmp(argv[1], "try") == 0) return try_some(), 0;
  if (argc > 1 && strcmp(argv[1], "much") == 0) return ask_for_much(), 0;
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
