// Returns that another call's place may lie in wait for: calls within each other whose return
// addresses have the same lower bits, two stacks whose pointers have, much recursion between a call
// and its return, and stack pointers that are off by some bytes in one call and not in the next.
// Prints what came of each.

#include <setjmp.h>
#include <stdio.h>
#include <sys/mman.h>

// Calls `steps` times, from two places in turn, a function that goes over to the other stack and
// returns there.
long alternate(long steps, char* other_stack);
// A function that sets CF if its argument is odd, after recursion of `depth` frames; and its
// caller, which reads CF.
long odd_after(long depth, long value);
// Hands CF and SF to a function that reads them, with a stack pointer that is `by` bytes lower.
long flags_to(long by, long value);
__asm__(
    ".text\n"
    "alternate:\n push %rbp\n push %rbx\n push %r12\n push %r13\n"
    " mov %rsp, %rbp\n mov %rdi, %r12\n xor %eax, %eax\n"
    // The other stack, with the same lower 16 bits; what returns there first goes to 7.
    " and $-65536, %rsi\n movzwl %bp, %ebx\n lea 65536(%rsi,%rbx), %rbx\n"
    " lea 7f(%rip), %rdx\n mov %rdx, -8(%rbx)\n sub $8, %rbx\n sub $8, %rsp\n"
    "1: add $8, %rsp\n call 9f\n lea 1(%rax), %rax\n call 9f\n ror $7, %rax\n add $2, %rax\n"
    " sub $8, %rsp\n dec %r12\n jnz 1b\n"
    " mov %rbp, %rsp\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
    "7: call 9f\n lea 3(%rax), %rax\n call 9f\n xor $5, %rax\n jmp 7b\n"
    "9: xchg %rsp, %rbx\n ret\n"
    "odd_after:\n call 2f\n setc %al\n movzbl %al, %eax\n ret\n"
    "2: test %rdi, %rdi\n jz 3f\n sub $40, %rsp\n dec %rdi\n call 2b\n lea 40(%rsp), %rsp\n ret\n"
    "3: bt $0, %rsi\n ret\n"
    "flags_to:\n push %rbp\n mov %rsp, %rbp\n sub %rdi, %rsp\n"
    " cmp $100, %rsi\n call 4f\n mov %rbp, %rsp\n pop %rbp\n ret\n"
    "4: sbb %rax, %rax\n sets %dl\n movzbl %dl, %edx\n lea 10(%rax,%rdx,2), %rax\n ret\n");

// Three functions that call the next one. The calls lie 64 KB apart.
long three_calls(long value);
__asm__(
    ".p2align 16\n"
    "three_calls: call 1f\n lea 1(%rax), %rax\n ret\n"
    ".p2align 16\n"
    "1: call 2f\n lea (%rax,%rax,2), %rax\n ret\n"
    ".p2align 16\n"
    "2: call 3f\n xor $5, %rax\n ret\n"
    "3: lea 7(%rdi), %rax\n ret\n");

static jmp_buf back;

static __attribute__((noinline)) long leave(long value) {
  if (value % 3 == 0) longjmp(back, (int)value + 1);
  return value * 3;
}

static __attribute__((noinline)) long through(long value) { return leave(value) + 1; }

// What it calls has a stack pointer that is `by` bytes lower, and may leave it.
static __attribute__((noinline)) long misaligned_through(long by, long value) {
  long result = value;
  __asm__ volatile(
      "mov %%rsp, %%rbx\n sub $256, %%rsp\n sub %2, %%rsp\n call *%1\n mov %%rbx, %%rsp"
      : "+D"(result)
      : "r"(through), "r"(by)
      : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
  return result;
}

int main(void) {
  char* const stack =
      mmap(NULL, 262144, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return 1;
  printf("%ld\n", alternate(2000, stack + 65536));
  long odd = 0;
  for (long depth = 0; depth < 6000; depth += 611) odd = 2 * odd + odd_after(depth, depth);
  printf("%ld\n", odd);
  long called = 0;
  for (long i = 0; i < 500; i++) called = 3 * called % 1000003 + three_calls(i);
  printf("%ld\n", called);
  long flags = 0;
  for (long i = 0; i < 200; i++) flags = 5 * flags % 1000003 + flags_to(i % 24, i);
  printf("%ld\n", flags);
  volatile long sum = 0;
  for (volatile long i = 0; i < 300; i++) {
    const int left = setjmp(back);
    sum += left != 0 ? left : misaligned_through(i % 16, i);
    sum += through(3 * i + 1);
  }
  printf("%ld\n", sum);
  return 0;
}
