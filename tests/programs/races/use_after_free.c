// A reader uses the present settings while another thread replaces and frees them.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/races/work.h"

enum { kMagic = 0x5e771165 };

struct settings {
  long magic;
  long limit, used;
};

static struct settings* volatile present;

static struct settings* make(long limit) {
  struct settings* made = malloc(sizeof(*made));
  *made = (struct settings){kMagic, limit, 0};
  return made;
}

// What a debugging allocator does.
static void retire(struct settings* old) {
  memset(old, 0xdd, sizeof(*old));
  free(old);
}

static void* replace(void* argument) {
  for (int i = 0; i < 3; i++) {
    work((uint64_t)argument + i, 4000);
    struct settings* const old = present;
    present = make(100 + i);
    retire(old);
  }
  return NULL;
}

static void use(void) {
  struct settings* const now = present;
  if (now->used < now->limit) now->used++;
  if (now->magic != kMagic) abort();
}

int main(void) {
  present = make(100);
  pthread_t thread;
  pthread_create(&thread, NULL, replace, (void*)1);
  for (int i = 0; i < 8; i++) {
    work(i, 1500);
    use();
  }
  pthread_join(thread, NULL);
  return 0;
}
