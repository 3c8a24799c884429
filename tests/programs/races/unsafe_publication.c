// The table is made at first use, by the first thread. Its address is stored before it is
// filled, and the check before the lock lets others use it then.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/programs/races/work.h"

struct table {
  int entries[8];
  int size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table* volatile instance;

static struct table* get(void) {
  if (instance != NULL) return instance;
  pthread_mutex_lock(&lock);
  if (instance == NULL) {
    instance = calloc(1, sizeof(struct table));
    for (int i = 0; i < 8; i++) instance->entries[i] = i;
    instance->size = 8;
  }
  pthread_mutex_unlock(&lock);
  return instance;
}

static void* user(void* argument) {
  work((uint64_t)argument, 5000);
  return (void*)(long)get()->size;
}

int main(void) {
  pthread_t one, other;
  void *first, *second;
  pthread_create(&one, NULL, user, (void*)1);
  pthread_create(&other, NULL, user, (void*)2);
  pthread_join(one, &first);
  pthread_join(other, &second);
  if ((long)first == 8 && (long)second == 8) return 0;
  printf("sizes %ld and %ld\n", (long)first, (long)second);
  return 1;
}
