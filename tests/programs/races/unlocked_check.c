// Whether there is a seat left is asked before the lock is taken: the last one is sold twice.
#include <pthread.h>
#include <stdio.h>

#include "tests/programs/races/work.h"

enum { kSeats = 5 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int sold;

static void* sell(void* argument) {
  uint64_t state = (uint64_t)argument;
  for (int i = 0; i < kSeats; i++) {
    state = work(state, 2000);
    if (sold >= kSeats) break;
    pthread_mutex_lock(&lock);
    sold++;
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

int main(void) {
  pthread_t one, other;
  pthread_create(&one, NULL, sell, (void*)1);
  pthread_create(&other, NULL, sell, (void*)2);
  pthread_join(one, NULL);
  pthread_join(other, NULL);
  if (sold == kSeats) return 0;
  printf("%d of %d seats sold\n", sold, kSeats);
  return 1;
}
