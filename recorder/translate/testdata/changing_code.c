// Executes code that it writes while it may write to it: no call tells that it has changed.

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*Function)(void);

// mov $value, %eax; ret
static void Write(uint8_t* code, int value) {
  code[0] = 0xb8;
  memcpy(code + 1, &value, sizeof(value));
  code[5] = 0xc3;
}

// Each changes its own next instruction, mov $1,%eax, through a register, and is executed once.
static long ChangesItself(void) {
  const int rights = PROT_READ | PROT_WRITE | PROT_EXEC;
  uint8_t* code = mmap(NULL, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // lea 4(%rip),%rdi; movb $42,(%rdi); mov $1,%eax; ret
  static const uint8_t kOnce[] = {0x48, 0x8d, 0x3d, 4, 0, 0, 0, 0xc6,
                                  0x07, 42,   0xb8, 1, 0, 0, 0, 0xc3};
  // lea 6(%rip),%rdi; mov $43,%al; stosb; nop; nop; mov $1,%eax; ret
  static const uint8_t kString[] = {0x48, 0x8d, 0x3d, 6,    0, 0, 0, 0xb0, 43,
                                    0xaa, 0x90, 0x90, 0xb8, 1, 0, 0, 0,    0xc3};
  long sum = 0;
  memcpy(code, kOnce, sizeof(kOnce));
  sum += ((Function)code)();
  memcpy(code + 64, kString, sizeof(kString));
  sum += ((Function)(code + 64))();
  return sum;
}

int main(void) {
  const int rights = PROT_READ | PROT_WRITE | PROT_EXEC;
  uint8_t* code = mmap(NULL, 8192, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  long sum = 0;
  for (int i = 0; i < 1000; ++i) {
    Write(code + 100, i % 7);
    sum += ((Function)(code + 100))();
  }
  printf("own stores %ld\n", sum);
  // The kernel stores it, over the border of a page.
  int pipes[2];
  uint8_t bytes[6];
  if (pipe(pipes) != 0) return 1;
  for (int i = 0; i < 100; ++i) {
    Write(bytes, i);
    if (write(pipes[1], bytes, 6) != 6 || read(pipes[0], code + 4094, 6) != 6) return 1;
    sum += ((Function)(code + 4094))();
  }
  printf("the kernel's %ld\n", sum);
  // By turns writable and executable.
  for (int i = 0; i < 50; ++i) {
    mprotect(code, 4096, PROT_READ | PROT_WRITE);
    Write(code + 200, i);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    sum += ((Function)(code + 200))();
  }
  printf("by turns %ld\n", sum);
  printf("its own next instruction %ld\n", ChangesItself());
  return 0;
}
