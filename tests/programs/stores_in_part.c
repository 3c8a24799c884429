// Stores over the end of a page after which nothing is mapped, and shows what has been stored of
// them: of some that the x87 makes 8 bytes.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

enum { kPage = 4096 };

static sigjmp_buf before;

static void on_fault(int signal) { siglongjmp(before, signal); }

static void show(const char* name, const uint8_t* page) {
  printf("%s:", name);
  for (int i = kPage - 64; i < kPage; i++) {
    if (page[i] != 0xee) printf(" %d %02x", i, page[i]);
  }
  printf("\n");
}

#define TRY(page, instruction, bytes)                                 \
  for (int beyond = 1; beyond < (bytes); beyond += (bytes) / 8 + 1) { \
    memset(page, 0xee, kPage);                                        \
    if (sigsetjmp(before, 1) == 0) {                                  \
      __asm__ volatile("fninit; fldpi; " instruction                  \
                       :                                              \
                       : "r"((page) + kPage - (bytes) + beyond)       \
                       : "memory");                                   \
    }                                                                 \
    __asm__ volatile("fninit");                                       \
    show(instruction, page);                                          \
  }

static void* end_at_once(void* argument) { return argument; }

// With any argument, after there has been a second thread.
int main(int argc, char** argv) {
  if (argc > 1) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, end_at_once, argv[1]) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
  }
  uint8_t* const page =
      mmap(NULL, (size_t)2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED && munmap(page + kPage, kPage) == 0);
  REQUIRE(signal(SIGSEGV, on_fault) != SIG_ERR);
  TRY(page, "fbstp (%0)", 10)
  TRY(page, "fstpt (%0)", 10)
  TRY(page, "fstpl (%0)", 8)
  TRY(page, "fnstenv (%0)", 28)
  TRY(page, "fnsave (%0)", 108)
  TRY(page, "movups %%xmm0, (%0)", 16)
  TRY(page, "movq %%rax, (%0)", 8)
  TRY(page, "addq $1, (%0)", 8)
  return 0;
}
