// Calls and returns with any stack pointer: prints what came of each.

#include <stdio.h>

// Calls in calls, with a stack pointer that is `by` bytes lower than it should be; then returns
// without calls where those were.
long call_misaligned(long by, long value);
__asm__(
    ".text\n"
    "call_misaligned:\n push %rbp\n mov %rsp, %rbp\n sub %rdi, %rsp\n mov %rsi, %rax\n"
    " mov $40, %ecx\n"
    "1: call 2f\n add %rcx, %rax\n dec %ecx\n jnz 1b\n mov %rbp, %rsp\n"
    " lea 5f(%rip), %rdx\n mov $16, %ecx\n"
    "6: push %rdx\n ret\n"
    "5: inc %rax\n sub $8, %rsp\n dec %ecx\n jnz 6b\n leave\n ret\n"
    "2: push %rcx\n call 3f\n call 4f\n pop %rcx\n ret\n"
    "3: lea 1(%rax,%rax), %rax\n ret\n"
    "4: push %rax\n call 3b\n pop %rdx\n xor %rdx, %rax\n ret\n");

static __attribute__((noinline)) long fibonacci(long n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static void refuse_misaligned(long flag) {
  long flags;
  __asm__ volatile("sub $128, %%rsp\n pushfq\n pop %0\n add $128, %%rsp" : "=r"(flags) : : "cc");
  flags = (flags & ~0x40000L) | flag;
  __asm__ volatile("sub $128, %%rsp\n push %0\n popfq\n add $128, %%rsp" : : "r"(flags) : "cc");
}

int main(void) {
  for (long by = 0; by < 24; by++) printf("%ld\n", call_misaligned(by, by));
  // Calls and returns are aligned here, whatever the recorder has in memory for them.
  refuse_misaligned(0x40000);
  const long result = fibonacci(15);
  refuse_misaligned(0);
  printf("%ld\n", result);
  return 0;
}
