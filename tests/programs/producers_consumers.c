// Three producers and two consumers share a small buffer under a mutex and two condition variables.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { kProducers = 3, kConsumers = 2, kEach = 400, kSlots = 8 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static int slots[kSlots];
static unsigned head, tail;  // slots[head % kSlots] is the next to take
static int producing = kProducers;
static uint64_t sum, taken;
static int last_of[kProducers];  // items of one producer come in order
static int disorder;

static void* produce(void* argument) {
  const int me = (int)(intptr_t)argument;
  for (int i = 1; i <= kEach; i++) {
    pthread_mutex_lock(&mutex);
    while (tail - head == kSlots) pthread_cond_wait(&not_full, &mutex);
    slots[tail++ % kSlots] = me * 1000000 + i;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&mutex);
  }
  pthread_mutex_lock(&mutex);
  if (--producing == 0) pthread_cond_broadcast(&not_empty);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static void* consume(void* argument) {
  (void)argument;
  for (;;) {
    pthread_mutex_lock(&mutex);
    while (tail == head && producing > 0) pthread_cond_wait(&not_empty, &mutex);
    if (tail == head) break;
    const int item = slots[head++ % kSlots];
    if (item % 1000000 <= last_of[item / 1000000]) disorder++;
    last_of[item / 1000000] = item % 1000000;
    sum += item;
    taken++;
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&mutex);
  }
  pthread_mutex_unlock(&mutex);
  return NULL;
}

int main(void) {
  pthread_t threads[kProducers + kConsumers];
  for (int i = 0; i < kProducers + kConsumers; i++) {
    pthread_create(&threads[i], NULL, i < kProducers ? produce : consume, (void*)(intptr_t)i);
  }
  for (int i = 0; i < kProducers + kConsumers; i++) pthread_join(threads[i], NULL);
  printf("%llu items, sum %llu, %d out of order\n", (unsigned long long)taken,
         (unsigned long long)sum, disorder);
  return 0;
}
