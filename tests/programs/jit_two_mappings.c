// Generated code that is written through one mapping and executed through another, as compilers do
// that never map memory writable and executable at once; in one thread, and with the writer in
// another than the one that executes.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

enum { kBytes = 8192 };

static char* writable;
static const char* executable;

typedef uint32_t (*Function)(uint32_t);

// imul eax,edi,factor; add eax,term; ret
static Function generate(size_t at, uint32_t factor, uint32_t term) {
  const unsigned char code[] = {0x69, 0xc7, 0, 0, 0, 0, 0x05, 0, 0, 0, 0, 0xc3};
  memcpy(writable + at, code, sizeof(code));
  memcpy(writable + at + 2, &factor, 4);
  memcpy(writable + at + 7, &term, 4);
  return (Function)(executable + at);
}

static uint32_t call(Function function, int times) {
  uint32_t value = 1;
  for (int i = 0; i < times; ++i) value = function(value ^ i);
  return value;
}

static pthread_barrier_t barrier;

static void* writer(void* unused) {
  (void)unused;
  for (uint32_t round = 0; round < 20; ++round) {
    pthread_barrier_wait(&barrier);
    generate(kBytes / 2 - 6, round * 2 + 3, ~round);  // over the end of a page
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(void) {
  const int fd = memfd_create("code", 0);
  REQUIRE(fd >= 0 && ftruncate(fd, kBytes) == 0);
  writable = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  executable = mmap(NULL, kBytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  REQUIRE(writable != MAP_FAILED && executable != MAP_FAILED);

  uint32_t sum = 0;
  for (uint32_t round = 0; round < 50; ++round) {
    const Function function = generate(round % 5 * 16, round * 7 + 1, round);
    sum = sum * 31 + call(function, 2000);
    // Only a constant changes.
    writable[round % 5 * 16 + 7] ^= 0x55;
    sum = sum * 31 + call(function, 2000);
  }
  printf("one thread: %u\n", sum);

  // Read as data, too, and written by a call.
  REQUIRE(pwrite(fd, "\xb8\x2a\0\0\0\xc3", 6, 128) == 6);  // mov eax,42; ret
  printf("written by a call: %u %d\n", ((Function)(executable + 128))(0), executable[128]);

  REQUIRE(pthread_barrier_init(&barrier, NULL, 2) == 0);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, writer, NULL) == 0);
  for (int round = 0; round < 20; ++round) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    sum = sum * 31 + call((Function)(executable + kBytes / 2 - 6), 500);
  }
  REQUIRE(pthread_join(thread, NULL) == 0);
  printf("two threads: %u\n", sum);
  return 0;
}
