// About a hundred million instructions of ordinary computing: sorting, hashing, matrices, text.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t random_state = 12345;

static uint32_t next_random(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 17;
  random_state ^= random_state << 5;
  return random_state;
}

static int compare(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return x < y ? -1 : x > y;
}

static uint32_t sorting(void) {
  enum { kCount = 100000 };
  uint32_t* values = malloc(kCount * sizeof(*values));
  for (int i = 0; i < kCount; i++) values[i] = next_random();
  qsort(values, kCount, sizeof(*values), compare);
  const uint32_t middle = values[kCount / 2];
  free(values);
  return middle;
}

static uint32_t hashing(void) {
  enum { kSlots = 1 << 16 };
  uint32_t* keys = calloc(kSlots, sizeof(*keys));
  uint32_t* counts = calloc(kSlots, sizeof(*counts));
  uint32_t most = 0;
  for (int i = 0; i < 500000; i++) {
    const uint32_t key = next_random() % 40000 + 1;
    uint32_t slot = key * 2654435761u >> 16;
    while (keys[slot] != 0 && keys[slot] != key) slot = (slot + 1) % kSlots;
    keys[slot] = key;
    if (++counts[slot] > most) most = counts[slot];
  }
  free(keys);
  free(counts);
  return most;
}

static double matrices(void) {
  enum { kSize = 120 };
  static double a[kSize][kSize], b[kSize][kSize], c[kSize][kSize];
  for (int i = 0; i < kSize; i++) {
    for (int j = 0; j < kSize; j++) {
      a[i][j] = i + j * 0.5;
      b[i][j] = i * 0.25 - j;
    }
  }
  for (int i = 0; i < kSize; i++) {
    for (int j = 0; j < kSize; j++) {
      double sum = 0;
      for (int k = 0; k < kSize; k++) sum += a[i][k] * b[k][j];
      c[i][j] = sum;
    }
  }
  return c[7][11] + c[kSize - 1][kSize - 1];
}

static uint32_t text(void) {
  char line[256];
  uint32_t hash = 5381;
  for (int i = 0; i < 20000; i++) {
    const int length = snprintf(line, sizeof(line), "%d:%x:%s", i, next_random(), "some words");
    for (int j = 0; j < length; j++) hash = hash * 33 ^ (unsigned char)line[j];
  }
  return hash;
}

int main(void) {
  printf("%u %u %g %u\n", sorting(), hashing(), matrices(), text());
  return 0;
}
