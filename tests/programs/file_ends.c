// Uses mapped pages past the end of their file: prints which signal comes, and what it says. Then a
// handler's frame does not fit: with an argument, SIGSEGV's handler has no stack for that either.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kPage = 4096, kPages = 16, kLeft = 2 };

static sigjmp_buf jump;
static char* memory;
static volatile int number;
static siginfo_t told;
static char alternate[65536];

static void on_fault(int signal, siginfo_t* info, void* context) {
  (void)context;
  number = signal;
  told = *info;
  siglongjmp(jump, 1);
}

static void report(const char* what) {
  const int of_kernel = number != 0 && told.si_code == SI_KERNEL;
  const long at = number == 0 || of_kernel ? 0 : (char*)told.si_addr - memory;
  printf("%s: signal %d, code %d, at %ld\n", what, number, number == 0 ? 0 : told.si_code, at);
  fflush(stdout);
}

#define TRY(access)                \
  do {                             \
    number = 0;                    \
    if (sigsetjmp(jump, 1) == 0) { \
      access;                      \
    }                              \
    report(#access);               \
  } while (0)

static void call(char* code) { ((void (*)(void))code)(); }
static void load(char* from) { (void)*(volatile char*)from; }
static void load_word(char* from) { (void)*(volatile uint64_t*)from; }
static void store(char* to) { *(volatile char*)to = 1; }
static void store_word(char* to) { *(volatile uint64_t*)to = 5; }
static void add(char* to) { *(volatile int*)to += 1; }
static void add_locked(char* to) { __atomic_fetch_add((int*)to, 1, __ATOMIC_SEQ_CST); }
static void load_vector(char* from) { asm volatile("movups (%0), %%xmm0" ::"r"(from) : "xmm0"); }
static void load_x87(char* from) { asm volatile("fldt (%0); fstp %%st(0)" ::"r"(from)); }
static void copy(char* to, char* from, size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
}
static void push(char* stack) {
  asm volatile("xchg %0, %%rsp; push %%rax; xchg %0, %%rsp" : "+r"(stack)::"memory");
}

static void map(FILE* file, int flags, int use_before) {
  REQUIRE(ftruncate(fileno(file), kPages * kPage) == 0);
  memory = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE | PROT_EXEC, flags, fileno(file), 0);
  REQUIRE(memory != MAP_FAILED);
  for (int i = 0; use_before && i < kPages; ++i) memory[i * kPage] = 'x';
  const char ret = (char)0xc3, nop = (char)0x90;
  memory[100] = ret;
  memory[kLeft * kPage - 1] = nop;
  REQUIRE(ftruncate(fileno(file), kLeft * kPage) == 0);
}

static void use(void) {
  char* const past = memory + 10 * kPage;
  char* const end = memory + kLeft * kPage;
  TRY(call(memory + 100));
  TRY(call(past));
  TRY(call(end - 1));
  TRY(load(past + 1));
  TRY(store(past + 2));
  TRY(add(past + 3));
  TRY(add_locked(past + 4));
  TRY(load_vector(past + 5));
  TRY(load_x87(past + 6));
  TRY(load_word(end - 4));
  TRY(store_word(end - 4));
  TRY(copy(memory + 1000, end - 100, 200));
  TRY(copy(end - 100, memory + 1000, 200));
  REQUIRE(mprotect(memory + 3 * kPage, kPage, PROT_NONE) == 0);
  TRY(load(memory + 3 * kPage));
  TRY(store(memory + 3 * kPage));
  REQUIRE(mprotect(past + kPage, kPage, PROT_READ) == 0);
  TRY(load(past + kPage));
  TRY(store(past + kPage + 8));
  REQUIRE(mprotect(past + kPage, kPage, PROT_EXEC) == 0);
  TRY(store_word(past + kPage + 16));
  REQUIRE(munmap(memory + 4 * kPage, kPage) == 0);
  TRY(store(memory + 4 * kPage));
}

int main(int argc, char** argv) {
  (void)argv;
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
  REQUIRE(sigaltstack(&stack, NULL) == 0);
  REQUIRE(sigaction(SIGBUS, &action, NULL) == 0);
  if (argc == 1) action.sa_flags |= SA_ONSTACK;
  REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0);
  FILE* const file = tmpfile();
  REQUIRE(file != NULL);
  const int flags[] = {MAP_PRIVATE, MAP_SHARED, MAP_PRIVATE, MAP_SHARED};
  for (int i = 0; i < 4; ++i) {
    map(file, flags[i], i >= 2);
    use();
    TRY(push(memory + 12 * kPage));
    REQUIRE(munmap(memory, kPages * kPage) == 0);
  }
  return 0;
}
