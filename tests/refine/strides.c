// Forty rounds, each with a breakpoint whose id is the round, one marked `once`, one that is always
// the same, and a call of step().

#include <stdio.h>

#include "libhindsight/hindsight.h"

volatile int factor = 1;
volatile long total;

__attribute__((noinline)) void step(int number) { total += number * factor; }

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int i = 1; i <= 40; ++i) {
    hs_breakpoint(1, 1, (unsigned)i, false, NULL);
    hs_breakpoint(1, 2, 1, true, NULL);
    hs_breakpoint(0, 3, 1, false, NULL);
    step(i);
    printf("%d: %ld\n", i, total);
  }
  return 0;
}
