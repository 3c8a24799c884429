// Has floating-point exceptions raise SIGFPE, and denormals flushed to zero, as numeric programs
// do.
#define _GNU_SOURCE
#include <fenv.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <xmmintrin.h>

#include "tests/programs/require.h"

enum { kExceptions = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW };
enum { kFlushToZero = 0x8000, kDenormalsAreZero = 0x40 };

static sigjmp_buf jump;
static volatile int code;
static volatile double zero = 0, one = 1, big = 1e308, tiny = 3e-308;
static volatile long double long_zero = 0;

static void on_fpe(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)context;
  code = info->si_code;
  siglongjmp(jump, 1);
}

static double divide(void) { return one / zero; }
static double invalid(void) { return zero / zero; }
static double overflow(void) { return big * big; }
static double x87(void) { return (double)(1 / long_zero); }

static void try(const char* name, double (*compute)(void)) {
  feclearexcept(FE_ALL_EXCEPT);
  REQUIRE(feenableexcept(kExceptions) >= 0);
  double harmless = 0;
  for (int i = 1; i < 1000; i++) harmless += one / i;
  volatile double result = 0;
  if (sigsetjmp(jump, 1) == 0) {
    result = compute();
    printf("%s: no signal\n", name);
  } else {
    printf("%s: code %d after %.6f\n", name, code, harmless);
  }
  fedisableexcept(FE_ALL_EXCEPT);
  result = compute();
  printf("%s: masked %g\n", name, result);
}

int main(void) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = on_fpe;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGFPE, &action, NULL);
  try("divide", divide);
  try("invalid", invalid);
  try("overflow", overflow);
  try("x87", x87);

  const unsigned usual = _mm_getcsr();
  volatile double half = tiny * 0.5;
  printf("denormals %g %g\n", half, half + half);
  _mm_setcsr(usual | kFlushToZero);
  printf("flushed to zero %g %g\n", tiny * 0.5, half + half);
  _mm_setcsr(usual | kDenormalsAreZero);
  printf("taken for zero %g %g\n", tiny * 0.5, half + half);
  _mm_setcsr(usual);
  printf("denormals %g %g\n", tiny * 0.5, half + half);
  return 0;
}
