// For walking: calls, a global that changes at known lines, loops. The line markers in comments
// are what the tests set breakpoints by.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int counter;
int history[8];
char text[32];

static int triple(int value) {
  int result = value * 3;  // in triple
  return result;
}

static int accumulate(int rounds) {
  int sum = 0;
  for (int i = 0; i < rounds; i++) {
    counter = i * 10;  // write counter
    history[i & 7] = triple(i);
    sum += history[i & 7];  // after triple
  }
  return sum;  // accumulate returns
}

static int deeper(int n) {
  if (n == 0) return accumulate(5);  // innermost
  return deeper(n - 1) + 1;
}

int main(void) {
  int total = accumulate(10);           // first accumulate
  total += deeper(4);                   // call deeper
  memset(text, 'x', sizeof(text) - 1);  // fill text
  strcpy(text, "done");                 // copy text
  counter = 1000;                       // last write
  printf("total %d counter %d %s\n", total, counter, text);
  return 0;
}
