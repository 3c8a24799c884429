// Dies by abort().
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  puts("aborting");
  fflush(stdout);
  abort();
}
