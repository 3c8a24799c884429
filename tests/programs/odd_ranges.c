// Calls about memory with ranges that are empty, misaligned, or where nothing can be.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static void show(const char* call, uint64_t start, uint64_t bytes, int result) {
  printf("%s %llx + %llx: %s\n", call, (unsigned long long)start, (unsigned long long)bytes,
         result == 0 ? "done" : strerror(errno));
}

int main(void) {
  char* const own = mmap(NULL, 4 << 12, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t starts[] = {0x600000000000, 0x7ffffffff000, 0x800000000000, 0x7fff00000000000,
                             0xffffffffff600000};
  const uint64_t offsets[] = {0, 1, 4095};
  const uint64_t sizes[] = {0, 1, 4096, 4097, (uint64_t)-4096, (uint64_t)-1};
  for (size_t i = 0; i < sizeof(starts) / 8; ++i) {
    for (size_t j = 0; j < sizeof(offsets) / 8; ++j) {
      for (size_t k = 0; k < sizeof(sizes) / 8; ++k) {
        const uint64_t start = starts[i] + offsets[j];
        void* const at = (void*)start;
        show("munmap", start, sizes[k], munmap(at, sizes[k]));
        show("mprotect", start, sizes[k], mprotect(at, sizes[k], PROT_READ));
        show("madvise", start, sizes[k], madvise(at, sizes[k], MADV_DONTNEED));
      }
    }
  }
  show("munmap own", 1, 4096, munmap(own + 1, 4096));
  show("munmap own", 0, 0, munmap(own, 0));
  show("munmap own", 0, (uint64_t)-1, munmap(own, (size_t)-1));
  show("mprotect own", 0, (uint64_t)-1, mprotect(own, (size_t)-1, PROT_READ));
  show("madvise own", 0, (uint64_t)-1, madvise(own, (size_t)-1, MADV_DONTNEED));
  show("madvise own", 0, 4096, madvise(own, 4096, 12345));
  show("mprotect own", 0, 4096, mprotect(own, 4096, 12345));
  printf("%d\n", own[0]);
  return 0;
}
