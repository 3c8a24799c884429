// Memory that is mapped, unmapped, moved and emptied in places where there was something else
// before: replaced_memory [SEED [STEPS [threads]]]. Calls stopped() after each step. With threads,
// two of them take the steps in turn, and wait for each other in the kernel.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/programs/require.h"

#define PAGE 4096ul
#define PAGES 12ul
#define FILE_PAGES 3ul
#define HEAP_PAGES 4ul
#define RESERVED (1ul << 30)

static char* area;
static char* heap;
static unsigned long heap_pages;
static int file = -1;
static int mapped[PAGES];
static unsigned seed = 1;
static int steps = 60, taken;
static volatile unsigned long sum;

// The debugger looks at all of the area here.
__attribute__((noinline)) void stopped(int step) { __asm__ volatile("" : : "r"(step) : "memory"); }

static unsigned Random(unsigned below) {
  seed = seed * 1103515245 + 12345;
  return (seed >> 16) % below;
}

static void Note(unsigned long page, unsigned long pages, int is) {
  for (unsigned long i = page; i < page + pages; i++) mapped[i] = is;
}

static void Map(unsigned long page, unsigned long pages, int descriptor, unsigned long file_page) {
  const int flags = MAP_PRIVATE | MAP_FIXED | (descriptor < 0 ? MAP_ANONYMOUS : 0);
  char* const at = area + page * PAGE;
  REQUIRE(mmap(at, pages * PAGE, PROT_READ | PROT_WRITE, flags, descriptor,
               (off_t)(file_page * PAGE)) == at);
  Note(page, pages, 1);
}

// Of as many pages as are mapped from there on.
static void Move(unsigned long page, unsigned long pages) {
  unsigned long count = 0;
  while (count < pages && mapped[page + count]) ++count;
  const unsigned long to = page < PAGES / 2 ? PAGES - count : 0;
  if (count == 0 || (to < page + count && page < to + count)) return;
  // One mapping only: what is moved may be of several.
  for (unsigned long i = 0; i < count; i++) {
    REQUIRE(mremap(area + (page + i) * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                   area + (to + i) * PAGE) != MAP_FAILED);
  }
  Note(page, count, 0);
  Note(to, count, 1);
}

// The heap ends elsewhere. Nobody else uses it by now.
static void MoveHeapsEnd(void) {
  if (heap == NULL) heap = (char*)(((unsigned long)sbrk(0) + PAGE - 1) / PAGE * PAGE);
  heap_pages = Random(HEAP_PAGES + 1);
  REQUIRE(brk(heap + heap_pages * PAGE) == 0);
}

static void Step(int step) {
  const unsigned long page = Random(PAGES), pages = 1 + Random((unsigned)(PAGES - page));
  switch (Random(9)) {
    case 0:
      REQUIRE(munmap(area + page * PAGE, pages * PAGE) == 0);
      Note(page, pages, 0);
      return;
    case 1:
      Map(page, pages, -1, 0);
      return;
    case 2:
      Map(page, pages < FILE_PAGES ? pages : FILE_PAGES, file, 0);
      return;
    case 3:
      for (unsigned long i = page; i < page + pages; i++) {
        if (mapped[i]) REQUIRE(madvise(area + i * PAGE, PAGE, MADV_DONTNEED) == 0);
      }
      return;
    case 4:
      Move(page, pages);
      return;
    case 5:
      for (unsigned long i = page; i < page + pages; i++) {
        if (mapped[i]) sum += (unsigned long)area[i * PAGE + Random(PAGE)];
      }
      return;
    case 6:
      MoveHeapsEnd();
      return;
    default:
      for (unsigned long i = page; i < heap_pages; i++) heap[i * PAGE + Random(64)] = (char)step;
      for (unsigned long i = page; i < page + pages; i++) {
        if (mapped[i]) memset(area + i * PAGE + Random(64), step, 1 + Random(3));
      }
  }
}

static sem_t turns[2];

static void* TakeTurns(void* number) {
  const long own = (long)number;
  for (;;) {
    REQUIRE(sem_wait(&turns[own]) == 0);
    if (taken == steps) break;
    Step(++taken);
    stopped(taken);
    REQUIRE(sem_post(&turns[Random(3) == 0 ? own : !own]) == 0);
  }
  REQUIRE(sem_post(&turns[!own]) == 0);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc > 1) seed = (unsigned)atoi(argv[1]);
  if (argc > 2) steps = atoi(argv[2]);
  file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  // Far from all else that is mapped: nothing will be put there.
  char* const reserved =
      mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(reserved != MAP_FAILED);
  area = reserved + RESERVED / 2;
  REQUIRE(munmap(reserved, RESERVED) == 0);
  if (argc > 3 && strcmp(argv[3], "threads") == 0) {
    pthread_t other;
    REQUIRE(sem_init(&turns[0], 0, 1) == 0 && sem_init(&turns[1], 0, 0) == 0);
    REQUIRE(pthread_create(&other, NULL, &TakeTurns, (void*)1) == 0);
    TakeTurns(NULL);
    REQUIRE(pthread_join(other, NULL) == 0);
  } else {
    for (int step = 1; step <= steps; step++) {
      Step(step);
      stopped(step);
    }
  }
  dprintf(1, "%d steps\n", steps);
  return 0;
}
