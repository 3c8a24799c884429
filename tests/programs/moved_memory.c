// Moves memory that it has filled, and looks at it only later.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

static char* moved;

int main(void) {
  const size_t size = 3 * 4096;
  char* const first = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* const place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(first != MAP_FAILED && place != MAP_FAILED);
  strcpy(first, "filled before the move");
  strcpy(first + 4096, "filled as well");
  moved = mremap(first, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  REQUIRE(moved == place);
  getppid();  // moved
  strcpy(moved, "changed");
  puts(moved);  // changed
  puts(moved + 4096);
  return 0;
}
