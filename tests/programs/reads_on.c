// Reads pages of numbers, each full of its own, until it is killed. After a read `memory` has
// `wanted` throughout.
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kPages = 64, kNumbers = 512 };

// Not in one page.
struct {
  uint64_t before[4];
  uint64_t numbers[kNumbers];
} memory __attribute__((aligned(4096)));
volatile uint64_t wanted;

int main(void) {
  const int file = memfd_create("numbers", 0);
  REQUIRE(file >= 0);
  for (uint64_t page = 0; page < kPages; ++page) {
    for (int i = 0; i < kNumbers; ++i) memory.numbers[i] = page;
    REQUIRE(write(file, memory.numbers, sizeof(memory.numbers)) == sizeof(memory.numbers));
  }
  for (uint64_t i = 0;; ++i) {
    wanted = i % kPages;
    const off_t at = (off_t)(wanted * sizeof(memory.numbers));
    REQUIRE(pread(file, memory.numbers, sizeof(memory.numbers), at) == sizeof(memory.numbers));
  }
}
