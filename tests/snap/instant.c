// A process that stands still in many ways: threads that compute with known vector registers, in a
// signal handler on a stack of its own, and in calls; memory of all kinds. Prints "ready" once
// nothing of it changes any more.

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { kPage = 4096 };

static _Atomic int ready;
static int pipe_ends[2];
static pthread_mutex_t locked = PTHREAD_MUTEX_INITIALIZER;
static uint8_t numbers[32 * 16];

static void fill(void* memory, size_t bytes, uint64_t seed) {
  uint64_t* const words = memory;
  for (size_t i = 0; i < bytes / 8; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    words[i] = seed;
  }
}

// With all vector registers, the control word and the stack of the x87 set: never returns.
static void compute(void) {
  __asm__ volatile(
      "fninit; fldpi; fldl2e; fld1; fldz; pushq $0x0b7f; fldcw (%%rsp); movq $0x7f80, (%%rsp);"
      "ldmxcsr (%%rsp); popq %%rcx" ::
          : "rcx", "memory");
  if (__builtin_cpu_supports("avx")) {
    __asm__ volatile(
        "vmovdqu (%0), %%ymm0; vmovdqu 32(%0), %%ymm1; vmovdqu 64(%0), %%ymm2;"
        "vmovdqu 224(%0), %%ymm7; vmovdqu 256(%0), %%ymm8; vmovdqu 480(%0), %%ymm15" ::"r"(numbers)
        : "memory");
  } else {
    __asm__ volatile("movdqu (%0), %%xmm0; movdqu 16(%0), %%xmm15" ::"r"(numbers) : "memory");
  }
  if (__builtin_cpu_supports("avx512f")) {
    __asm__ volatile(
        "vmovdqu64 (%0), %%zmm3; vmovdqu64 64(%0), %%zmm31; kmovw (%0), %%k3" ::"r"(numbers)
        : "memory");
  }
  ++ready;
  __asm__ volatile(
      "mov $0x1111111111111111, %%rbx; mov $0x2222222222222222, %%r15; stc; 1: jmp 1b" ::
          : "rbx", "r15");
}

static void on_signal(int signal) {
  (void)signal;
  compute();
}

static void* computes(void* unused) {
  compute();
  return unused;
}

static void* handles(void* unused) {
  const stack_t stack = {.ss_sp = calloc(16, kPage), .ss_size = 16 * kPage};
  sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  return unused;
}

static void* sleeps(void* unused) {
  const struct timespec time = {100000, 0};
  ++ready;
  nanosleep(&time, NULL);
  return unused;
}

static void* waits(void* unused) {
  ++ready;
  pthread_mutex_lock(&locked);
  return unused;
}

static void* reads(void* unused) {
  char byte;
  ++ready;
  if (read(pipe_ends[0], &byte, 1) != 1) abort();
  return unused;
}

static void make_memory(void) {
  const int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS, kWrite = PROT_READ | PROT_WRITE;
  const struct {
    size_t pages;
    int flags, advice, protection;
  } kinds[] = {
      {64, kPrivate, MADV_NORMAL, kWrite},    {4, kPrivate, MADV_DONTFORK, kWrite},
      {4, kPrivate, MADV_WIPEONFORK, kWrite}, {16, MAP_SHARED | MAP_ANONYMOUS, MADV_NORMAL, kWrite},
      {2, kPrivate, MADV_NORMAL, PROT_NONE},  {2, kPrivate, MADV_NORMAL, PROT_READ},
  };
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
    const size_t bytes = kinds[i].pages * kPage;
    void* const memory = mmap(NULL, bytes, kWrite, kinds[i].flags, -1, 0);
    fill(memory, bytes, i + 1);
    madvise(memory, bytes, kinds[i].advice);
    mprotect(memory, bytes, kinds[i].protection);
    // One thing after the other, with something between that keeps them apart.
    mmap(NULL, kPage, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  }
  const int file = memfd_create("instant", 0);
  if (ftruncate(file, 8 * kPage) != 0) abort();
  fill(mmap(NULL, 8 * kPage, kWrite, MAP_SHARED, file, 0), 8 * kPage, 77);
  uint8_t* const changed = mmap(NULL, 8 * kPage, kWrite, MAP_PRIVATE, file, 0);
  fill(changed + 3 * kPage, kPage, 78);
  fill(sbrk(3 * kPage), 3 * kPage - 64, 79);
}

int main(void) {
  fill(numbers, sizeof(numbers), 80);
  make_memory();
  if (pipe(pipe_ends) != 0) return 1;
  pthread_mutex_lock(&locked);
  void* (*const bodies[])(void*) = {computes, handles, sleeps, waits, reads};
  const int count = sizeof(bodies) / sizeof(bodies[0]);
  pthread_t threads[sizeof(bodies) / sizeof(bodies[0])];
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, bodies[i], NULL);
  while (ready < count) usleep(1000);
  usleep(50 * 1000);  // until they are in their calls
  printf("ready\n");
  fflush(stdout);
  while (1) pause();
}
