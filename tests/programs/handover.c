// Two threads hand a number to each other by spinning. Between a thread's two calls of getppid it
// makes one store for each turn, and no other.
//
//   handover TURNS        without any other system call
//   handover TURNS SPINS  a thread that has looked so often in vain lets the other one run
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/programs/require.h"

static volatile long number;
static long turns, spins = -1;

// Waits for `first`, makes it one more, waits for two more, and so on.
static void play(long first) {
  asm volatile(
      "mov $110, %%eax\n syscall\n"
      "mov %[turns], %%rcx\n"
      "0: mov %[spins], %%r8\n"
      "1: cmp %[next], (%[number])\n je 2f\n pause\n dec %%r8\n jnz 1b\n"
      "mov %%rcx, %%r9\n mov $24, %%eax\n syscall\n mov %%r9, %%rcx\n jmp 0b\n"  // sched_yield
      "2: lea 1(%[next]), %%rdx\n mov %%rdx, (%[number])\n"
      "add $2, %[next]\n dec %%rcx\n jnz 0b\n"
      "mov $110, %%eax\n syscall\n"
      : [next] "+r"(first)
      : [number] "r"(&number), [turns] "r"(turns), [spins] "r"(spins)
      : "rax", "rcx", "rdx", "r8", "r9", "r11", "cc", "memory");
}

static void* other(void* unused) {
  play(1);
  return unused;
}

int main(int argc, char** argv) {
  turns = argc > 1 ? atol(argv[1]) : 1000;
  if (argc > 2) spins = atol(argv[2]);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, other, NULL) == 0);
  play(0);
  REQUIRE(pthread_join(thread, NULL) == 0);
  printf("%ld\n", number);
}
