// Two threads hand a number to each other by spinning. Between a thread's two calls of getppid it
// makes one store for each turn, and no other.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/programs/require.h"

static volatile long number;
static long turns;

// Waits for `first`, makes it one more, waits for two more, and so on.
static void play(long first) {
  asm volatile(
      "mov $110, %%eax\n syscall\n"
      "mov %[turns], %%rcx\n"
      "1: cmp %[next], (%[number])\n je 2f\n pause\n jmp 1b\n"
      "2: lea 1(%[next]), %%rdx\n mov %%rdx, (%[number])\n"
      "add $2, %[next]\n dec %%rcx\n jnz 1b\n"
      "mov $110, %%eax\n syscall\n"
      : [next] "+r"(first)
      : [number] "r"(&number), [turns] "r"(turns)
      : "rax", "rcx", "rdx", "r11", "cc", "memory");
}

static void* other(void* unused) {
  play(1);
  return unused;
}

int main(int argc, char** argv) {
  turns = argc > 1 ? atol(argv[1]) : 1000;
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, other, NULL) == 0);
  play(0);
  REQUIRE(pthread_join(thread, NULL) == 0);
  printf("%ld\n", number);
}
