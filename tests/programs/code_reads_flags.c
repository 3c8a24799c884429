// Code in memory that can be written to begins with an instruction that reads the status flags, and
// is changed now and then.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

enum { kChanges = 200, kCalls = 20 };

static int call(const void* code, int number) {
  int result;
  __asm__ volatile("cmp $1, %1; call *%2"
                   : "=&a"(result)
                   : "r"(number), "r"(code)
                   : "cc", "memory");
  return result;
}

int main(void) {
  uint8_t* const page =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  int64_t sum = 0;
  for (int32_t i = 0; i < kChanges; i++) {
    // setc %al; movzbl %al,%eax; add $i,%eax; ret
    uint8_t code[] = {0x0f, 0x92, 0xc0, 0x0f, 0xb6, 0xc0, 0x05, 0, 0, 0, 0, 0xc3};
    memcpy(code + 7, &i, sizeof(i));
    memcpy(page, code, sizeof(code));
    for (int j = 0; j < kCalls; j++) sum += call(page, j % 2);
  }
  printf("%ld\n", (long)sum);
  return sum == (int64_t)kCalls * kChanges * (kChanges - 1) / 2 + kCalls / 2 * kChanges ? 0 : 1;
}
