// Executes instructions that want their operand aligned, and some that do not, at every offset, and
// survives their faults: by a jump, and by mending the address and trying again.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "tests/programs/require.h"

static sigjmp_buf jump;
static volatile int mend;
static volatile int faults;
static void* volatile address;
static char memory[4096] __attribute__((aligned(64)));

static void on_fault(int number, siginfo_t* info, void* context) {
  ucontext_t* user = context;
  ++faults;
  address = info->si_addr;
  if (!mend) siglongjmp(jump, 1);
  user->uc_mcontext.gregs[REG_RDI] &= ~(greg_t)15;
}

// One instruction with a memory operand, its address in rdi; and the same after the instruction
// that loads the address.
#define INSTRUCTION(name, text)                                                            \
  static void name(char* at) {                                                             \
    __asm__ volatile(text : : "D"(at), "a"(0), "b"(0), "c"(0), "d"(0) : "xmm0", "memory"); \
  }                                                                                        \
  static void name##_loaded(char* at) {                                                    \
    char* volatile place = at;                                                             \
    __asm__ volatile("mov (%%rsi), %%rdi\n\t" text                                         \
                     :                                                                     \
                     : "S"(&place), "a"(0), "b"(0), "c"(0), "d"(0)                         \
                     : "rdi", "xmm0", "memory");                                           \
  }

INSTRUCTION(load, "movaps (%%rdi), %%xmm0")
INSTRUCTION(store, "movdqa %%xmm0, (%%rdi)")
INSTRUCTION(stream, "movntdq %%xmm0, (%%rdi)")
INSTRUCTION(add, "addps (%%rdi), %%xmm0")
INSTRUCTION(compare, "pcmpeqb (%%rdi), %%xmm0")
INSTRUCTION(shuffle, "pshufd $1, (%%rdi), %%xmm0")
INSTRUCTION(convert, "cvtdq2ps (%%rdi), %%xmm0")
INSTRUCTION(exchange, "lock cmpxchg16b (%%rdi)")
INSTRUCTION(save, "fxsave (%%rdi)")
INSTRUCTION(any_load, "movups (%%rdi), %%xmm0")
INSTRUCTION(any_store, "movdqu %%xmm0, (%%rdi)")
INSTRUCTION(find, "pcmpistri $0, (%%rdi), %%xmm0")
INSTRUCTION(half, "cvtdq2pd (%%rdi), %%xmm0")

#define ROW(name) \
  { #name, name, name##_loaded }
static const struct {
  const char* name;
  void (*execute)(char* at);
  void (*execute_loaded)(char* at);
} kRows[] = {ROW(load),      ROW(store),   ROW(stream),   ROW(add),  ROW(compare),
             ROW(shuffle),   ROW(convert), ROW(exchange), ROW(save), ROW(any_load),
             ROW(any_store), ROW(find),    ROW(half)};

static void at_every_offset(const char* name, void (*execute)(char* at)) {
  faults = 0;
  volatile unsigned refused = 0;
  for (volatile int offset = 0; offset < 32; ++offset) {
    address = memory;
    if (sigsetjmp(jump, 1) == 0) {
      execute(memory + 64 + offset);
    } else {
      refused = refused | 1u << offset;
    }
    REQUIRE(address == memory || address == NULL);  // the kernel knows none
  }
  printf("%s: %d faults, %08x\n", name, faults, refused);
}

// Sums words in vectors of four, `stride` bytes apart.
static float sum(const char* at, long stride, long count) {
  float sums[4] __attribute__((aligned(16)));
  __asm__ volatile(
      "xorps %%xmm0, %%xmm0\n"
      "1: addps (%%rdi), %%xmm0\n\t"
      "add %1, %%rdi\n\t"
      "dec %2\n\t"
      "jnz 1b\n\t"
      "movaps %%xmm0, (%3)"
      : "+D"(at), "+r"(stride), "+r"(count)
      : "r"(sums)
      : "xmm0", "memory");
  return sums[0] + sums[1] + sums[2] + sums[3];
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0);
  for (size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); ++i) {
    memset(memory, 0, sizeof(memory));
    at_every_offset(kRows[i].name, kRows[i].execute);
    at_every_offset("  its address loaded", kRows[i].execute_loaded);
  }
  for (size_t i = 0; i < sizeof(memory) / 4; ++i) {
    const float value = (float)(i % 7);
    memcpy(memory + 4 * i, &value, 4);
  }
  mend = 1;
  for (long stride = 4; stride <= 32; stride += 4) {
    faults = 0;
    const float result = sum(memory + stride % 16, stride, 100);
    printf("strides of %ld: %g, mended %d times\n", stride, result, faults);
  }
  return 0;
}
