// Counts to five, with a snapshot at each number; then one of a breakpoint. Prints where the
// number is.

#include <stdint.h>
#include <stdio.h>

#include "libhindsight/hindsight.h"

static volatile uint64_t number;

int main(void) {
  printf("%p\n", (void*)&number);
  fflush(stdout);
  for (number = 1; number <= 5; ++number) hs_snapshot("step");
  hs_breakpoint(3, 1, 2, false, NULL);
  return 4;
}
