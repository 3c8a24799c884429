// thread_memory WHICH: threads that use memory which one of them maps and unmaps, or pages that lie
// far apart, more than there can be mappings.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { kThreads = 3 };
static const unsigned long kBytes = 1 << 18, kPage = 4096;
static pthread_barrier_t barrier;
static char* memory;
static unsigned long sums[kThreads];

static char* Map(unsigned long bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
              0);
}

static void GiveBack(int round, unsigned long* sum) {
  if (round % 3 == 1) {
    madvise(memory, kBytes, MADV_DONTNEED);
    for (unsigned long i = 0; i < kBytes; i += kPage) *sum += (unsigned char)memory[i];
  } else if (round % 3 == 2) {
    memory = mremap(memory, kBytes, 2 * kBytes, MREMAP_MAYMOVE);
    *sum += (unsigned char)memory[5000];
    munmap(memory + kBytes, kBytes);
  }
  munmap(memory, kBytes);
}

static void* UseTogether(void* argument) {
  const unsigned long self = (unsigned long)argument;
  for (int round = 0; round < 30; ++round) {
    if (self == 0) memset(memory = Map(kBytes), round, kBytes);
    pthread_barrier_wait(&barrier);
    for (unsigned long i = 0; i < kBytes; i += kPage) sums[self] += (unsigned char)memory[i + self];
    memory[(self + 1) * 5000] = 1;
    pthread_barrier_wait(&barrier);
    if (self == 1) GiveBack(round, &sums[self]);
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void* UseFarApart(void* argument) {
  const unsigned long self = (unsigned long)argument;
  unsigned long random = self + 1;
  for (unsigned long i = 0; i < 12000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    unsigned long* word = (unsigned long*)(memory + (random >> 20) % (1 << 22) * kPage) + 8 * self;
    sums[self] += *word;
    *word = sums[self] + i;
  }
  return NULL;
}

int main(int argc, char** argv) {
  const int apart = strcmp(argv[1], "apart") == 0;
  pthread_barrier_init(&barrier, NULL, kThreads);
  if (apart) memory = Map((unsigned long)(1 << 22) * kPage);
  pthread_t threads[kThreads];
  for (unsigned long i = 0; i < kThreads; ++i) {
    pthread_create(&threads[i], NULL, apart ? UseFarApart : UseTogether, (void*)i);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%lu %lu %lu\n", sums[0], sums[1], sums[2]);
  return 0;
}
