// Forks, and changes a function in its own file's memory while the child calls it, and changes it
// in another way. Ends with 0 if each has always called what it had.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kRounds = 40, kPage = 4096 };

// Alone in its page.
__asm__(
    ".pushsection .text\n"
    ".balign 4096\n"
    "number:\n"
    "  mov $0, %eax\n"
    "  ret\n"
    ".balign 4096\n"
    ".popsection\n");
extern uint32_t number(void);

static void set_number(uint32_t value) {
  uint8_t* const code = (uint8_t*)(uintptr_t)number;
  REQUIRE(mprotect(code, kPage, PROT_READ | PROT_WRITE) == 0);
  memcpy(code + 1, &value, sizeof(value));
  REQUIRE(mprotect(code, kPage, PROT_READ | PROT_EXEC) == 0);
}

static int is_right_in_child(uint32_t value) {
  if (number() != value) return 0;
  set_number(value + 1000);
  if (number() != value + 1000) return 0;
  // One that finds nothing changed.
  const pid_t child = fork();
  if (child == 0) _exit(number() == value + 1000 ? 0 : 1);
  int status;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status == 0;
}

int main(void) {
  for (uint32_t round = 0; round < kRounds; round++) {
    REQUIRE(number() == round);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(is_right_in_child(round) ? 0 : 1);
    set_number(round + 1);
    REQUIRE(number() == round + 1);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(status == 0);
  }
  return 0;
}
