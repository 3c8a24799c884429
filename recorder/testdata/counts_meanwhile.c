// Prints its number and the address of a word, counts for some tenths of a second, and ends with
// what the word is then.

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static volatile int word = 1;
static volatile uint64_t counted;

int main(void) {
  printf("%d %p\n", getpid(), (void*)&word);
  fflush(stdout);
  while (counted < 100000000) ++counted;
  return word;
}
