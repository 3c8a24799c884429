// Sorts eight million numbers: runs first, then merges of two, up to one run. A step sorts eight
// runs, or merges a quarter of all. What is sorted is then replaced by other numbers.
#include <stdlib.h>

#include "bench/parallel/kernel.h"

enum { kLevels = 8, kRuns = 1 << kLevels, kRunsOfStep = 8, kParts = 4 };
enum { kSortSteps = kRuns / kRunsOfStep, kSteps = 1 + kSortSteps + kLevels * kParts };
static const size_t kSize = (size_t)8 << 20;

static uint64_t *numbers, *other;

static void fill(size_t first, size_t end, long number) {
  for (size_t i = first; i < end; i++) numbers[i] = mix((uint64_t)number * kSize + i);
}

static void set_up(int threads, long steps) {
  (void)threads, (void)steps;
  numbers = memory(kSize * sizeof(*numbers));
  other = memory(kSize * sizeof(*other));
  fill(0, kSize, 0);
  for (size_t i = 0; i < kSize; i++) other[i] = mix(~i);  // all memory is in use from the start
}

static int compare(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return (x > y) - (x < y);
}

// Quicksort, qsort(3) for what is short: that of glibc would allocate as much again.
static void sort(uint64_t* first, size_t count) {
  while (count > 32) {
    const uint64_t pivot = first[count / 2];
    size_t i = 0, j = count - 1;
    while (i <= j) {
      while (first[i] < pivot) i++;
      while (first[j] > pivot) j--;
      if (i > j) break;
      const uint64_t swapped = first[i];
      first[i++] = first[j];
      first[j] = swapped;
      if (j-- == 0) break;
    }
    const size_t left = i < count ? i : count;
    sort(first, j + 1 < left ? j + 1 : left);
    first += left;
    count -= left;
  }
  qsort(first, count, sizeof(*first), compare);
}

// How many of the first `out` numbers of the merge of `a` and `b`, `length` each, come from `a`.
static size_t taken(const uint64_t* a, const uint64_t* b, size_t length, size_t out) {
  size_t low = out > length ? out - length : 0, high = out < length ? out : length;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (a[middle] <= b[out - middle - 1]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The numbers from `first` to `end` of the merges of all pairs of runs of `length`.
static void merge(const uint64_t* from, uint64_t* to, size_t length, size_t first, size_t end) {
  while (first < end) {
    const size_t start = first / (2 * length) * 2 * length;
    const uint64_t *a = from + start, *b = a + length;
    const size_t here = end < start + 2 * length ? end : start + 2 * length;
    size_t i = taken(a, b, length, first - start), j = first - start - i;
    for (; first < here; first++) {
      to[first] = j >= length || (i < length && a[i] <= b[j]) ? a[i++] : b[j++];
    }
  }
}

static void step(int thread, int threads, long step) {
  const long number = step % kSteps;
  const size_t run = kSize / kRuns;
  if (number == 0) {
    if (step == 0) return;
    fill(share(kSize, thread, threads), share(kSize, thread + 1, threads), step);
  } else if (number <= kSortSteps) {
    for (int i = thread; i < kRunsOfStep; i += threads) {
      sort(numbers + run * ((size_t)(number - 1) * kRunsOfStep + (size_t)i), run);
    }
  } else {
    const size_t merged = (size_t)(number - 1 - kSortSteps), level = merged / kParts;
    const size_t part = kSize / kParts, start = merged % kParts * part;
    merge(level % 2 == 0 ? numbers : other, level % 2 == 0 ? other : numbers, run << level,
          start + share(part, thread, threads), start + share(part, thread + 1, threads));
  }
}

static uint64_t sum(void) {
  return sum_of(numbers, kSize * sizeof(*numbers)) + sum_of(other, kSize * sizeof(*other));
}

const struct kernel kSort = {"sort", "sorts runs and merges them, 128 MB", set_up, step, sum};
