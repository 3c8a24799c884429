// The producer does not take the lock when it signals: a consumer that has just found nothing
// misses it, and waits for ever. The alarm ends that.
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/programs/races/work.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_int ready;

static void* producer(void* argument) {
  work((uint64_t)argument, 6000);
  atomic_store(&ready, 1);
  pthread_cond_signal(&changed);
  return NULL;
}

int main(void) {
  alarm(5);
  pthread_t thread;
  pthread_create(&thread, NULL, producer, (void*)1);
  work(2, 2000);
  pthread_mutex_lock(&lock);
  while (!atomic_load(&ready)) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  pthread_join(thread, NULL);
  return 0;
}
