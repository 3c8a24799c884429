// Nested functions whose addresses are taken: the compiler writes code to the stack and runs it.
#include <stdio.h>
#include <stdlib.h>

static int apply(int (*function)(int), int count) {
  int sum = 0;
  for (int i = 0; i < count; i++) sum += function(i);
  return sum;
}

static int levels(int depth, int (*outer)(int)) {
  int here(int x) { return x * depth + (outer != NULL ? outer(x) : 1); }
  return depth == 0 ? apply(here, 5) : levels(depth - 1, here);
}

int main(void) {
  int total = 0;
  for (int factor = 1; factor < 30; factor++) {
    int calls = 0;
    int scaled(int x) {
      calls++;
      return x * factor;
    }
    total += apply(scaled, 10);
    total += calls;
  }
  printf("%d %d\n", total, levels(6, NULL));
  return 0;
}
