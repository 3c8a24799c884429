// Writes code and runs it, and rewrites the code that is running.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int main(void) {
  unsigned char* code =
      mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int total = 0;
  for (int i = 0; i < 50; i++) {
    // mov eax, i; ret
    const unsigned char body[] = {0xb8, (unsigned char)i, 0, 0, 0, 0xc3};
    memcpy(code, body, sizeof(body));
    total += ((int (*)(void))code)();
  }
  printf("rewritten between calls: %d\n", total);

  // Patches the immediate of the instruction after the patching one, in the same basic block:
  // mov byte ptr [rip + 1], dil; mov eax, imm32; ret
  const unsigned char patching[] = {0x40, 0x88, 0x3d, 1, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3};
  memcpy(code, patching, sizeof(patching));
  total = 0;
  for (int i = 0; i < 50; i++) total += ((int (*)(int))code)(i);
  printf("rewritten while running: %d\n", total);

  // Code that crosses a page, one half rewritten.
  unsigned char* edge = code + 4096 - 3;
  for (int i = 0; i < 20; i++) {
    const uint32_t value = 0x01010101u * (unsigned)i;
    edge[0] = 0xb8;
    memcpy(edge + 1, &value, 4);
    edge[5] = 0xc3;
    total += ((int (*)(void))edge)() & 0xff;
  }
  printf("across pages: %d\n", total);
  return 0;
}
