// Two kinds of computing, in a thread each: `one`, `other`, or `both` at the same time.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTableSize = 1 << 14 };

static void* hashing(void* result) {
  static uint32_t table[kTableSize];
  uint64_t sum = 1;
  for (uint32_t i = 0; i < 3000000; i++) {
    const uint32_t slot = (i * 2654435761u) >> 18;
    table[slot] += (uint32_t)sum;
    sum = (sum << 1 | sum >> 63) + table[slot];
  }
  *(uint64_t*)result = sum;
  return NULL;
}

static int compare(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return x < y ? -1 : x > y;
}

static void* sorting(void* result) {
  enum { kCount = 40000 };
  uint32_t* values = malloc(kCount * sizeof(*values));
  uint64_t state = 1;
  for (int i = 0; i < kCount; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values[i] = (uint32_t)(state >> 32);
  }
  qsort(values, kCount, sizeof(*values), compare);
  *(uint64_t*)result = values[kCount / 3];
  free(values);
  return NULL;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "both";
  uint64_t results[2] = {0, 0};
  pthread_t threads[2];
  const int first = strcmp(what, "other") != 0, second = strcmp(what, "one") != 0;
  if (first) pthread_create(&threads[0], NULL, hashing, &results[0]);
  if (second) pthread_create(&threads[1], NULL, sorting, &results[1]);
  if (first) pthread_join(threads[0], NULL);
  if (second) pthread_join(threads[1], NULL);
  printf("%llx %llx\n", (unsigned long long)results[0], (unsigned long long)results[1]);
  return 0;
}
