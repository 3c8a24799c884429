// The fast Fourier transform of two million complex numbers in place, forward and backward in turn:
// a step is one stage, and touches all of them.
#include <math.h>

#include "bench/parallel/kernel.h"

enum { kStages = 21, kSteps = kStages + 1 };
static const size_t kSize = (size_t)1 << kStages;

struct complex_number {
  double real, imaginary;
};

static struct complex_number *numbers, *roots;

static void set_up(int threads, long steps) {
  (void)threads, (void)steps;
  numbers = memory(kSize * sizeof(*numbers));
  roots = memory(kSize / 2 * sizeof(*roots));
  for (size_t i = 0; i < kSize; i++) {
    numbers[i] = (struct complex_number){fraction(2 * i) - 0.5, fraction(2 * i + 1) - 0.5};
  }
  for (size_t i = 0; i < kSize / 2; i++) {
    const double angle = -2 * 3.14159265358979323846 * (double)i / (double)kSize;
    roots[i] = (struct complex_number){cos(angle), sin(angle)};
  }
}

static size_t reversed(size_t index) {
  size_t result = 0;
  for (int bit = 0; bit < kStages; bit++) result |= ((index >> bit) & 1) << (kStages - 1 - bit);
  return result;
}

// Whoever has the lower index of a pair exchanges it. Forward and backward together divide by
// kSize.
static void reorder(size_t first, size_t end) {
  const double scale = 1 / sqrt((double)kSize);
  for (size_t i = first; i < end; i++) {
    const size_t other = reversed(i);
    if (other < i) continue;
    const struct complex_number a = numbers[i], b = numbers[other];
    numbers[i] = (struct complex_number){b.real * scale, b.imaginary * scale};
    numbers[other] = (struct complex_number){a.real * scale, a.imaginary * scale};
  }
}

static void stage(size_t half, size_t first, size_t end, double sign) {
  const size_t stride = kSize / 2 / half;
  for (size_t i = first; i < end; i++) {
    const size_t within = i & (half - 1);
    struct complex_number* const low = &numbers[2 * (i - within) + within];
    struct complex_number* const high = low + half;
    const struct complex_number root = roots[within * stride];
    const double imaginary = sign * root.imaginary;
    const double re = high->real * root.real - high->imaginary * imaginary;
    const double im = high->real * imaginary + high->imaginary * root.real;
    *high = (struct complex_number){low->real - re, low->imaginary - im};
    *low = (struct complex_number){low->real + re, low->imaginary + im};
  }
}

static void step(int thread, int threads, long step) {
  const int number = (int)(step % kSteps);
  const double sign = step / kSteps % 2 == 0 ? 1 : -1;
  if (number == 0) {
    reorder(share(kSize, thread, threads), share(kSize, thread + 1, threads));
  } else {
    stage((size_t)1 << (number - 1), share(kSize / 2, thread, threads),
          share(kSize / 2, thread + 1, threads), sign);
  }
}

static uint64_t sum(void) { return sum_of(numbers, kSize * sizeof(*numbers)); }

const struct kernel kFft = {"fft", "FFT of two million numbers in place, 48 MB", set_up, step, sum};
