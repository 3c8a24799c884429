// Loops of one line each, for stepping over them. argv[1]: rounds; 20,000 without it.
#include <setjmp.h>
#include <stdlib.h>

volatile long sum;
static jmp_buf place;

static int odd(int i) { return i & 1; }
static int depth(int n) { return n == 0 ? 0 : 1 + depth(n - 1); }
static void away(int i) { longjmp(place, i); }

int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 20000, i;
  sum = 1;                                // before the plain loop
  for (i = 0; i < n; i++) sum += i;       // plain loop
  sum = 2;                                // before the calling loop
  for (i = 0; i < n; i++) sum += odd(i);  // calling loop
  sum = 3;                                // before the recursion
  sum += depth(50);                       // recursion
  sum = 4;                                // before the jumping loop
  i = setjmp(place);                      // jumping loop
  sum = 5;                                // before the jump
  if (i < 3) away(i + 1);                 // jump
  sum = 6;                                // end
  return 0;
}
