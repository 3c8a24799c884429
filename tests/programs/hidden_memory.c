// Memory that may not be accessed for a while, and is read again afterwards.
//
//   hidden_memory SEED ROUNDS   random calls for sixteen pieces of memory, all of which is read
//   hidden_memory much          64 MB that are dropped 300 times
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "require.h"

enum { kPage = 4096, kPieces = 16, kPages = 8, kBytes = kPages * kPage, kReadWrite = 3 };

static char* pieces[kPieces];
static unsigned long total;

static int below(int limit) { return rand() % limit; }

static void* new_pages(void* at, size_t bytes, int protection) {
  const int fixed = at == NULL ? 0 : MAP_FIXED;
  void* memory = mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return memory;
}

static void add(const char* bytes, size_t size) {
  for (size_t i = 0; i < size; i += 8) {
    unsigned long word;
    memcpy(&word, bytes + i, 8);
    total = total * 31 + word;
  }
}

static void protect(char* memory, size_t bytes, int protection) {
  REQUIRE(mprotect(memory, bytes, protection) == 0);
}

static int any_protection(void) { return below(2) == 0 ? PROT_NONE : kReadWrite; }

// To where something else was mapped, perhaps while it is hidden itself.
static void move_over(int piece) {
  protect(pieces[piece], kBytes, any_protection());
  char* to = new_pages(NULL, kBytes, any_protection());
  REQUIRE(mremap(pieces[piece], kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
  pieces[piece] = to;
}

// What was there before has zeros then.
static void move_out_of(int piece) {
#ifdef MREMAP_DONTUNMAP
  char* to = mremap(pieces[piece], kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP);
  if (to == MAP_FAILED) return;
  char* unused = to;
  if (below(2) == 0) {
    unused = pieces[piece];
    pieces[piece] = to;
  }
  munmap(unused, kBytes);
#endif
}

// Processors let what may only be written, or executed, be read as well.
static void read_without_right(char* memory, size_t bytes, int protection) {
  protect(memory, bytes, protection);
  add(memory, bytes);
}

// What it has grown by is zeros, also where it was larger before.
static void resize_heap(void) {
  const int pages = below(16) - 8;
  char* before = sbrk(pages * kPage + below(100));
  if (pages <= 0) return;
  before = (char*)(((size_t)before + 7) & ~(size_t)7);
  add(before, (pages - 1) * kPage);
  memset(before, 1 + below(200), pages * kPage);
}

static void change(int piece) {
  const int first = below(kPages), count = 1 + below(kPages - first);
  char* memory = pieces[piece] + first * kPage;
  const size_t bytes = count * kPage;
  switch (below(14)) {
    case 0:
    case 1:
    case 2:
      return protect(memory, bytes, PROT_NONE);
    case 3:
    case 4:
      return protect(memory, bytes, kReadWrite);
    case 5:
      REQUIRE(madvise(memory, bytes, MADV_DONTNEED) == 0);
      return;
    case 6:
      return move_over(piece);
    case 7:
      new_pages(memory, bytes, any_protection());
      return;
    case 8:
      return read_without_right(memory, bytes, PROT_WRITE);
    case 9:
      return read_without_right(memory, bytes, PROT_EXEC);
    case 10:
      return protect(memory, bytes, PROT_READ);
    case 11:
      return move_out_of(piece);
    case 12:
    case 13:
      return resize_heap();
  }
}

static void read_all_in_a_child(void) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < kPieces; i++) {
      protect(pieces[i], kBytes, kReadWrite);
      add(pieces[i], kBytes);
    }
    printf("in a child %lx\n", total);
    exit(0);
  }
  REQUIRE(waitpid(child, NULL, 0) == child);
}

static int random_calls(int seed, int rounds) {
  srand(seed);
  REQUIRE(sbrk(200 * kPage) != (void*)-1);
  for (int i = 0; i < kPieces; i++) {
    pieces[i] = new_pages(NULL, kBytes, kReadWrite);
    for (int j = 0; j < kBytes; j += 4) memcpy(pieces[i] + j, (int[]){rand()}, 4);
  }
  for (int i = 0; i < rounds; i++) {
    change(below(kPieces));
    if (below(100) == 0) read_all_in_a_child();
    if (below(4) != 0) continue;
    char* page = pieces[below(kPieces)] + below(kPages) * kPage;
    protect(page, kPage, kReadWrite);
    add(page, kPage);
    page[below(kPage)] = (char)i;
  }
  printf("%lx\n", total);
  return 0;
}

static int much(void) {
  const size_t bytes = 64 << 20;
  char* memory = new_pages(NULL, bytes, kReadWrite);
  for (size_t i = 0; i < bytes; i += kPage) memory[i] = 1;
  long sum = 0;
  for (int i = 0; i < 300; i++) {
    REQUIRE(madvise(memory, bytes, MADV_DONTNEED) == 0);
    memory[i * kPage] = 1;
    for (int j = 0; j <= i; j++) sum += memory[j * kPage];
  }
  printf("%ld\n", sum);
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 3) return random_calls(atoi(argv[1]), atoi(argv[2]));
  return argc == 2 && strcmp(argv[1], "much") == 0 ? much() : 1;
}
