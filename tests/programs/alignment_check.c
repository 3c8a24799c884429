// Sets RFLAGS.AC, as checkers of misaligned accesses do: each such access is a SIGBUS then.
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

#include "tests/programs/require.h"

enum { kAlignmentCheck = 0x40000 };

static volatile int faults;

// Switches the checks off, so that the access is done when it is tried again.
static void on_fault(int number, siginfo_t* info, void* context) {
  ucontext_t* user = context;
  faults += 1;
  user->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)kAlignmentCheck;
}

// With the checks on around it, and the stack pointer clear of what the compiler keeps below it.
#define CHECKED(text)                                             \
  "lea -128(%%rsp), %%rsp\n\tpushfq\n\torl $0x40000, (%%rsp)\n\t" \
  "popfq\n\t" text "\n\tpushfq\n\tandl $~0x40000, (%%rsp)\n\tpopfq\n\tlea 128(%%rsp), %%rsp\n\t"
#define INSTRUCTION(name, text)                                                                    \
  static void name(char* at) {                                                                     \
    char* to = at + 1024;                                                                          \
    __asm__ volatile(CHECKED(text) : "+S"(at), "+D"(to) : : "rax", "rcx", "xmm0", "cc", "memory"); \
  }

INSTRUCTION(load_byte, "mov (%%rsi), %%al")
INSTRUCTION(load_word, "mov (%%rsi), %%ax")
INSTRUCTION(load_long, "mov (%%rsi), %%eax")
INSTRUCTION(load, "mov 8(%%rsi), %%rax")
INSTRUCTION(store, "mov %%rax, (%%rdi)\n\tadd %%ecx, (%%rsi)")
INSTRUCTION(exchange, "lock xadd %%eax, (%%rsi)")
INSTRUCTION(scalar, "movsd (%%rsi), %%xmm0\n\taddss (%%rsi), %%xmm0")
INSTRUCTION(copy, "mov $3, %%ecx\n\trep movsq")
INSTRUCTION(integer, "fildl (%%rsi)\n\tfstp %%st(0)")
INSTRUCTION(count, "mov $1000, %%ecx\n\t1: add (%%rsi), %%rax\n\tdec %%ecx\n\tjnz 1b")
INSTRUCTION(address_only, "lea 1(%%rsi), %%rax\n\tnop")

#define ROW(name) \
  { #name, name }
static const struct {
  const char* name;
  void (*execute)(char* at);
} kRows[] = {ROW(load_byte), ROW(load_word), ROW(load_long),   ROW(load),
             ROW(store),     ROW(exchange),  ROW(scalar),      ROW(copy),
             ROW(integer),   ROW(count),     ROW(address_only)};

static char memory[4096] __attribute__((aligned(64)));

int main(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  REQUIRE(sigaction(SIGBUS, &action, NULL) == 0);
  for (size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); ++i) {
    printf("%s:", kRows[i].name);
    for (int offset = 0; offset < 9; ++offset) {
      faults = 0;
      kRows[i].execute(memory + 64 + offset);
      printf(" %d", faults);
    }
    printf("\n");
  }
  return 0;
}
