// Reads where nothing is mapped, from a function that says so.

#include <stdio.h>

__attribute__((noinline)) static int ReadNowhere(volatile int* place) { return *place; }

int main(void) {
  puts("before");
  fflush(stdout);
  return ReadNowhere((volatile int*)0x1234);
}
