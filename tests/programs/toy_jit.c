// Generates code, runs it, patches it and runs it again: in one mapping, between writing and
// executing, through a second address, and with two threads.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

enum { kSize = 8192 };

typedef uint64_t (*Function)(uint64_t);

static uint8_t* put(uint8_t* at, const void* bytes, size_t size) {
  memcpy(at, bytes, size);
  return at + size;
}

// x -> (((x * factors[0]) ^ x) * factors[1]) ^ x ..., `count` times.
static size_t generate(uint8_t* start, const uint32_t* factors, int count) {
  uint8_t* at = put(start, "\x48\x89\xf8", 3);  // mov rax, rdi
  for (int i = 0; i < count; i++) {
    at = put(at, "\x48\x69\xc0", 3);  // imul rax, rax, imm32
    at = put(at, &factors[i], 4);
    at = put(at, "\x48\x31\xf8", 3);  // xor rax, rdi
  }
  return (size_t)(put(at, "\xc3", 1) - start);
}

static uint64_t expected(uint64_t x, const uint32_t* factors, int count) {
  uint64_t value = x;
  for (int i = 0; i < count; i++) value = (value * (uint64_t)(int64_t)(int32_t)factors[i]) ^ x;
  return value;
}

static void fill(uint32_t* factors, int count, uint32_t seed) {
  for (int i = 0; i < count; i++) {
    seed = seed * 1664525 + 1013904223;
    factors[i] = seed >> 8;
  }
}

// Writes code at `code`, runs it at `run`; how many results were right.
static int rounds(uint8_t* code, uint8_t* run, int protect, uint32_t seed, int times) {
  uint32_t factors[40];
  int right = 0;
  for (int i = 0; i < times; i++) {
    const int count = 1 + i % 40;
    fill(factors, count, seed + (uint32_t)i);
    if (protect) mprotect(code, kSize, PROT_READ | PROT_WRITE);
    generate(code, factors, count);
    if (protect) mprotect(code, kSize, PROT_READ | PROT_EXEC);
    for (uint64_t x = 1; x < 20; x++) {
      right += ((Function)(void*)run)(x) == expected(x, factors, count);
    }
    // A patch of one operand.
    factors[count / 2] ^= 0x5555;
    if (protect) mprotect(code, kSize, PROT_READ | PROT_WRITE);
    memcpy(code + 6 + 10 * (count / 2), &factors[count / 2], 4);
    if (protect) mprotect(code, kSize, PROT_READ | PROT_EXEC);
    for (uint64_t x = 1; x < 20; x++) {
      right += ((Function)(void*)run)(x) == expected(x, factors, count);
    }
  }
  return right;
}

static uint8_t* memory(int protection) {
  uint8_t* result = mmap(NULL, kSize, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(result != MAP_FAILED);
  return result;
}

// One thread compiles, the other runs what it finds.
static _Atomic(Function) published;
static atomic_int compiled, ran;

static void* compiles(void* argument) {
  uint8_t* code = argument;
  uint32_t factors[8];
  for (int i = 1; i <= 30; i++) {
    fill(factors, 8, (uint32_t)i);
    generate(code + (i % 2) * 4096, factors, 8);  // where old code was
    atomic_store(&published, (Function)(void*)(code + (i % 2) * 4096));
    atomic_store(&compiled, i);
    while (atomic_load(&ran) < i) sched_yield();
  }
  return NULL;
}

static void* runs(void* argument) {
  uint32_t factors[8];
  uintptr_t right = 0;
  for (int i = 1; i <= 30; i++) {
    while (atomic_load(&compiled) < i) sched_yield();
    fill(factors, 8, (uint32_t)i);
    right += atomic_load(&published)(77) == expected(77, factors, 8);
    atomic_store(&ran, i);
  }
  return (void*)right;
}

int main(void) {
  uint8_t* all = memory(PROT_READ | PROT_WRITE | PROT_EXEC);
  printf("one mapping: %d right\n", rounds(all, all, 0, 1, 60));
  uint8_t* either = memory(PROT_READ | PROT_WRITE);
  printf("write or execute: %d right\n", rounds(either, either, 1, 2, 60));
  const int fd = memfd_create("toy_jit", 0);
  REQUIRE(fd >= 0 && ftruncate(fd, kSize) == 0);
  uint8_t* writable = mmap(NULL, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  uint8_t* executable = mmap(NULL, kSize, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  REQUIRE(writable != MAP_FAILED && executable != MAP_FAILED);
  printf("two addresses: %d right\n", rounds(writable, executable, 0, 3, 8));
  // New code where old code was unmapped.
  int right = 0;
  for (uint32_t i = 0; i < 5; i++) {
    uint8_t* again = mmap(all, kSize, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    right += rounds(again, again, 0, i, 60);
  }
  printf("mapped again: %d right\n", right);
  pthread_t threads[2];
  void* result;
  pthread_create(&threads[0], NULL, compiles, all);
  pthread_create(&threads[1], NULL, runs, NULL);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], &result);
  printf("two threads: %d right\n", (int)(uintptr_t)result);
  return 0;
}
