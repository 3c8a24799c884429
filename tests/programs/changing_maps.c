// Changes its memory map in all the ways that programs do, from two threads, and prints the
// kernel's list of it from time to time.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/programs/require.h"

#define PAGE 4096ul
#define PAGES 600ul

static char text[1 << 20];
static size_t text_size;
static uint8_t* area;
static uint64_t seed = 7;
static int file;

static uint64_t Random(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return seed >> 33;
}

static void ChangeOne(void) {
  const uint64_t first = Random() % PAGES;
  const uint64_t pages = 1 + Random() % (PAGES - first < 9 ? PAGES - first : 9);
  const int protection = (int)(Random() % 4);  // of PROT_READ and PROT_WRITE
  uint8_t* const at = area + first * PAGE;
  const off_t offset = (off_t)(Random() % 4 * PAGE);
  const uint64_t kind = Random() % 16;
  if (kind == 0) {
    munmap(at, pages * PAGE);
  } else if (kind == 1) {
    mmap(at, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  } else if (kind == 2) {
    mmap(at, pages * PAGE, protection, MAP_SHARED | MAP_FIXED, file, offset);
  } else if (kind == 3) {
    mmap(at, pages * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, offset);
  } else if (kind == 4) {
    mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + Random() % PAGES * PAGE);
  } else if (kind == 5) {
    REQUIRE(sbrk(PAGE) != (void*)-1);
  } else {
    mprotect(at, pages * PAGE, protection);
  }
}

static void* ChangeMany(void* unused) {
  (void)unused;
  for (int i = 0; i < 150; ++i) ChangeOne();
  return NULL;
}

static void Checked(void) { __asm__ volatile("" ::: "memory"); }

static void ReadMaps(void) {
  const int maps = open("/proc/self/maps", O_RDONLY);
  REQUIRE(maps >= 0);
  text_size = 0;
  ssize_t got;
  while ((got = read(maps, text + text_size, sizeof(text) - text_size)) > 0) text_size += got;
  close(maps);
  Checked();  // maps were read
  for (size_t done = 0; done < text_size;) {
    const ssize_t wrote = write(1, text + done, text_size - done);
    REQUIRE(wrote > 0);
    done += wrote;
  }
  REQUIRE(write(1, "\n", 1) == 1);
}

int main(void) {
  file = memfd_create("changing", 0);
  REQUIRE(ftruncate(file, 16 * PAGE) == 0);
  area = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(area != MAP_FAILED);
  memset(text, 1, sizeof(text));
  for (int round = 0; round < 8; ++round) {
    ReadMaps();
    pthread_t other;
    if (round % 2 == 0) REQUIRE(pthread_create(&other, NULL, ChangeMany, NULL) == 0);
    for (int i = 0; i < 300; ++i) ChangeOne();
    if (round % 2 == 0) REQUIRE(pthread_join(other, NULL) == 0);
  }
  ReadMaps();
  return 0;
}
