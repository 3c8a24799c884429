// One page seen at two addresses, written through one and read through the other; pages mapped over
// others; files written by calls and seen in mappings.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

enum { kPage = 4096 };

static char* map(int fd, void* at, int flags, int page) {
  char* memory = mmap(at, kPage, PROT_READ | PROT_WRITE, flags, fd, page * kPage);
  REQUIRE(memory != MAP_FAILED);
  return memory;
}

static void two_addresses(int fd) {
  volatile uint32_t* one = (uint32_t*)map(fd, NULL, MAP_SHARED, 0);
  volatile uint32_t* other = (uint32_t*)map(fd, NULL, MAP_SHARED, 0);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < 1000; i++) {
    one[i % 1024] = i;
    sum += other[i % 1024];
    other[i % 1024] += 7;  // read, modified and written at the second address
    sum += one[i % 1024];
    __atomic_fetch_add(&one[5], 1, __ATOMIC_SEQ_CST);
    sum += __atomic_load_n(&other[5], __ATOMIC_SEQ_CST);
  }
  // A store over the end of one line and the start of the next.
  *(volatile uint64_t*)((volatile char*)one + 60) = 0x1122334455667788;
  printf("two addresses: %llu, %x %x\n", (unsigned long long)sum, other[15], other[16]);
}

static void written_by_calls(int fd) {
  char* memory = map(fd, NULL, MAP_SHARED, 1);
  uint64_t sum = 0;
  for (int i = 0; i < 50; i++) {
    const char text[8] = {(char)i, 1, 2, 3, 4, 5, 6, (char)(i * 3)};
    REQUIRE(pwrite(fd, text, 8, kPage + i * 8) == 8);
    sum += (unsigned char)memory[i * 8] * 3u + (unsigned char)memory[i * 8 + 7];
    memory[i * 8] = 'x';
    char back = 0;
    REQUIRE(pread(fd, &back, 1, kPage + i * 8) == 1);
    sum += (unsigned char)back;
  }
  printf("written by calls: %llu\n", (unsigned long long)sum);
}

// A private mapping shows its file until it is written to.
static void private_and_shared(int fd) {
  volatile char* shared = map(fd, NULL, MAP_SHARED, 2);
  volatile char* own = map(fd, NULL, MAP_PRIVATE, 2);
  const volatile char* read_only = mmap(NULL, kPage, PROT_READ, MAP_PRIVATE, fd, 2 * kPage);
  REQUIRE(read_only != MAP_FAILED);
  unsigned sum = 0;
  for (int i = 0; i < 500; i++) {
    shared[i] = (char)(i * 7);
    sum = sum * 31 + (unsigned char)own[i] * 3u + (unsigned char)read_only[i];
  }
  own[600] = 1;
  shared[601] = 2;
  printf("private and shared: %u, %d %d %d\n", sum, own[601], read_only[601], shared[600]);
}

static void mapped_over(int fd) {
  char* window = map(fd, NULL, MAP_SHARED, 0);
  uint64_t sum = 0;
  for (int round = 0; round < 5; round++) {
    for (int page = 0; page < 4; page++) {
      map(fd, window, MAP_SHARED | MAP_FIXED, page);
      sum = sum * 31 + (unsigned char)window[100];
      window[100] = (char)(round * 10 + page);
    }
    // Private memory in its place: zero, and nothing of it reaches the file.
    map(-1, window, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 0);
    sum = sum * 31 + (unsigned char)window[100];
    window[100] = 99;
    // A private copy of the file's page: the file's bytes until written.
    map(fd, window, MAP_PRIVATE | MAP_FIXED, round % 4);
    sum = sum * 31 + (unsigned char)window[100];
    window[100] = 98;
  }
  char* moved = mremap(window, kPage, 2 * kPage, MREMAP_MAYMOVE);
  REQUIRE(moved != MAP_FAILED);
  printf("mapped over: %llx, moved %d\n", (unsigned long long)sum, moved[100]);
}

int main(void) {
  const int fd = memfd_create("two_mappings", 0);
  REQUIRE(fd >= 0 && ftruncate(fd, 4 * kPage) == 0);
  two_addresses(fd);
  written_by_calls(fd);
  private_and_shared(fd);
  mapped_over(fd);
  return 0;
}
