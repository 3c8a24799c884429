// A position of two words is stored and loaded in two instructions each: a reader may get one word
// of the old and one of the new.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/programs/races/work.h"

static struct { volatile long x, y; } position;

static void* move(void* argument) {
  for (long i = 1; i <= 4; i++) {
    work((uint64_t)argument, 2500);
    position.x = i;
    position.y = i;
  }
  return NULL;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, move, (void*)1);
  for (int i = 0; i < 4; i++) {
    work(i, 2500);
    const long x = position.x, y = position.y;
    if (x == y) continue;
    printf("torn: %ld, %ld\n", x, y);
    exit(1);
  }
  pthread_join(thread, NULL);
  return 0;
}
