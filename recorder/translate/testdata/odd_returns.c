// Returns that no call, or another call, leads to: each prints what came of it.

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

static jmp_buf outside;

static int dive(int depth) {
  if (depth == 0) longjmp(outside, 1);
  return dive(depth - 1) + depth;
}

static long jump_out(void) {
  long sum = 0;
  for (volatile int i = 0; i < 50; i++) {
    if (setjmp(outside) == 0) dive(i * 7);
    sum += i;
  }
  return sum;
}

static ucontext_t contexts[3];
static long passed;

static void coroutine(int number) {
  for (int i = 0; i < 500; i++) {
    passed = passed * 3 + number;
    swapcontext(&contexts[number], &contexts[i % 5 == 0 ? 0 : 3 - number]);
  }
}

static long switch_stacks(void) {
  for (int i = 1; i <= 2; i++) {
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = malloc(65536);
    contexts[i].uc_stack.ss_size = 65536;
    contexts[i].uc_link = &contexts[0];
    makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
  }
  for (int i = 0; i < 100; i++) swapcontext(&contexts[0], &contexts[1 + i % 2]);
  return passed;
}

// As compilers do where an indirect branch must not be predicted.
static long through_return(long (*function)(long), long argument) {
  long result;
  __asm__ volatile(
      "sub $128, %%rsp\n call 1f\n jmp 3f\n"
      "1: call 2f\n 4: pause\n jmp 4b\n"
      "2: mov %2, (%%rsp)\n ret\n"
      "3: add $128, %%rsp\n"
      : "=a"(result), "+D"(argument)
      : "r"(function)
      : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
  return result;
}

static long twice(long x) { return 2 * x; }
static long less_one(long x) { return x - 1; }

// The address is popped, so that the call returns to the caller's caller.
static long skip_a_return(void) {
  long result;
  __asm__ volatile(
      "sub $128, %%rsp\n call 1f\n mov $5, %%eax\n jmp 9f\n"
      "1: call 2f\n mov $6, %%eax\n ret\n"
      "2: add $8, %%rsp\n ret\n"
      "9: add $128, %%rsp\n"
      : "=a"(result)
      :
      : "memory", "cc");
  return result;
}

// Where it returns to depends on it; flags and an operand released survive the return.
static long return_elsewhere(long which) {
  long result;
  __asm__ volatile(
      "sub $128, %%rsp\n push $0\n lea 1f(%%rip), %%rax\n test %1, %1\n jz 0f\n"
      "lea 2f(%%rip), %%rax\n"
      "0: push %%rax\n xor %%eax, %%eax\n cmp $1, %1\n ret $8\n"
      "1: setc %%al\n add $10, %%rax\n jmp 9f\n"
      "2: setz %%al\n add $20, %%rax\n"
      "9: add $128, %%rsp\n"
      : "=&a"(result)
      : "r"(which)
      : "memory", "cc");
  return result;
}

static long deep(long n) { return n == 0 ? 0 : 1 + deep(n - 1) * 1; }

int main(void) {
  long sum = 0;
  printf("%ld\n", jump_out());
  printf("%ld\n", switch_stacks());
  for (long i = 0; i < 1000; i++) sum += through_return(i % 3 == 0 ? twice : less_one, i);
  for (long i = 0; i < 1000; i++) sum = sum * 7 + return_elsewhere(i % 2) + skip_a_return();
  printf("%ld %ld\n", sum, deep(20000));
  return 0;
}
