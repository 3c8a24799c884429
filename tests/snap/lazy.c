// Takes a snapshot before it has called strtol(), which is bound at its first call. Its calls go
// through strlen(), of which the dynamic linker chooses one of several.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libhindsight/hindsight.h"

__attribute__((noinline)) double measure(const char* text) {
  return (double)strtol(text, NULL, 10) / 4;
}

size_t (*volatile length_of)(const char*);

int main(int count, char** arguments) {
  hs_snapshot("before");
  length_of = strlen;
  size_t sum = 0;
  for (int i = 0; i < 5; ++i) {
    sum += length_of(arguments[0] + i);
  }
  printf("%g %zu\n", measure("42"), sum);
  return 0;
}
