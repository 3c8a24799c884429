// Floating point through x87 and SSE, with rounding modes and exceptions looked at.
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

int main(void) {
  long double sum = 0, product = 1;
  for (int i = 1; i <= 50; i++) {
    sum += 1.0L / i;
    product *= 1 + 1.0L / i;
  }
  printf("%.18Lf %.15Lf %.15Lf\n", sum, product, sqrtl(sum));
  printf("%.17g %.17g %.17g\n", sin(1), exp(2.5), pow(1.1, 30));
  printf("%.15Lf %.15Lf %.15Lf\n", sinl(1), logl(10), atan2l(1, 3));
  const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  for (int i = 0; i < 4; i++) {
    fesetround(modes[i]);
    volatile double third = 1.0;
    volatile long double long_third = 1.0L;
    third /= 3;
    long_third /= 3;
    printf("%a %La %ld %ld\n", third, long_third, lrint(2.5), lrintl(-2.5L));
  }
  fesetround(FE_TONEAREST);
  feclearexcept(FE_ALL_EXCEPT);
  volatile double zero = 0, huge = 1e308;
  volatile double quotient = 1 / zero, big = huge * 10;
  printf("%g %g %d %d\n", quotient, big, !!fetestexcept(FE_DIVBYZERO), !!fetestexcept(FE_OVERFLOW));
  double values[300];
  unsigned state = 7;
  for (int i = 0; i < 300; i++) {
    state = state * 1103515245u + 12345u;
    values[i] = (double)(state >> 8) / 977;
  }
  qsort(values, 300, sizeof(double), compare);
  printf("%.6f %.6f %.6f\n", values[0], values[150], values[299]);
  return 0;
}
