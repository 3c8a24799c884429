// Reads 2.3 GB, the same two megabytes again and again: more than fits into one segment, in few
// instructions.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kBytes = 1 << 20, kRounds = 2400 };

static char buffer[kBytes];

int main(void) {
  FILE* const file = tmpfile();
  REQUIRE(file != NULL);
  for (int i = 0; i < 2; ++i) {
    memset(buffer, 'a' + i, kBytes);
    REQUIRE(write(fileno(file), buffer, kBytes) == kBytes);
  }
  uint64_t sum = 0;
  for (int i = 0; i < kRounds; ++i) {
    REQUIRE(pread(fileno(file), buffer, kBytes, i % 2 * kBytes) == kBytes);
    sum = sum * 31 + (uint8_t)buffer[i];
  }
  printf("%lu\n", (unsigned long)sum);
  return 0;
}
