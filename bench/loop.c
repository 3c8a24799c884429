// A CPU-bound loop: integer arithmetic, unpredictable branches and a table that fits in the cache.

#include <stdint.h>
#include <stdio.h>

static uint32_t table[1 << 16];

int main(void) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < 30000000; ++i) {
    const uint32_t slot = (i * 2654435761u) >> 16;
    table[slot] += (uint32_t)sum;
    if (table[slot] & 1) {
      sum += table[(slot * 7) & 0xffff];
    } else {
      sum ^= (uint64_t)slot << 3;
    }
    sum = (sum << 1) | (sum >> 63);
  }
  printf("%llu\n", (unsigned long long)sum);
  return 0;
}
