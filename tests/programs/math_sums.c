// Sums of libm's functions: libm chooses its code by what CPUID says, and the last digits show it.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// Every bit of every result.
static void mix(uint64_t* hash, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  *hash = *hash * 31 + bits;
}

int main(void) {
  double sum = 0;
  uint64_t hash[6] = {0};
  for (int i = 1; i <= 20000; i++) {
    const double x = i * 0.37;
    sum += sin(x) + sqrt(x) + log(x);
    mix(&hash[0], sin(x));
    mix(&hash[1], sqrt(x));
    mix(&hash[2], log(x));
    mix(&hash[3], exp(x / 1000));
    mix(&hash[4], pow(x, 1.3));
    mix(&hash[5], atan(x));
  }
  printf("sum of sin, sqrt and log: %.17g\n", sum);
  for (int i = 0; i < 6; i++) printf("%016llx\n", (unsigned long long)hash[i]);
  return 0;
}
