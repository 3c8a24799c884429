// String instructions that repeat millions of times, timed: for each a name and the seconds that
// its fastest round took.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/timing.h"

enum { kStored = 10 << 20, kCompared = 2 << 20, kRounds = 5 };

static uint8_t stored[kStored], one[kCompared], other[kCompared];

static void store(int value) {
  void* to = stored;
  size_t count = sizeof(stored);
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(value) : "memory");
}

// Bytes that are left where the two differ; they do not.
static size_t compare(void) {
  const void *left = one, *right = other;
  size_t count = sizeof(one);
  __asm__ volatile("repe cmpsb" : "+S"(left), "+D"(right), "+c"(count) : : "memory", "cc");
  return count;
}

int main(void) {
  double storing = 1e9, comparing = 1e9;
  size_t left = 0;
  for (int i = 0; i < kRounds; i++) {
    const double start = seconds_now();
    store(i);
    const double middle = seconds_now();
    left += compare();
    const double end = seconds_now();
    if (middle - start < storing) storing = middle - start;
    if (end - middle < comparing) comparing = end - middle;
  }
  printf("stosb %.9f\ncmpsb %.9f\n", storing, comparing);
  return stored[kStored - 1] == kRounds - 1 && left == 0 ? 0 : 1;
}
