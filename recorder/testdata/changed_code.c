// Executes code that it writes: in memory that is always writable, and in memory that is made so.

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static int Return(unsigned char* place, int value) {
  const unsigned char code[] = {0xb8, value & 0xff, value >> 8, 0,
                                0,    0xc3};  // mov $value, %eax; ret
  memcpy(place, code, sizeof(code));
  return 0;
}

int main(void) {
  unsigned char* code =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  long sum = 0;
  for (int i = 0; i < 300; ++i) {
    mprotect(code, 4096, PROT_READ | PROT_WRITE);
    Return(code, i);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    sum += ((int (*)(void))code)();
  }
  printf("%ld\n", sum);
  fflush(stdout);
  mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
  for (int i = 0; i < 2000; ++i) {
    Return(code + i % 3 * 64, i);
    sum += ((int (*)(void))(code + i % 3 * 64))();
  }
  printf("%ld\n", sum);
  return 0;
}
