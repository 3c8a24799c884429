// A bounded queue of many producers and consumers that uses only atomic instructions.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

enum { kSlots = 256, kProducers = 2, kConsumers = 2, kEach = 20000 };

// After Dmitry Vyukov: `turn` is the push or pop that the slot waits for.
static struct {
  atomic_uint turn;
  uint32_t item;
} slots[kSlots];
static atomic_uint push_at, pop_at, popped;
static atomic_ullong sum, squares;

static int push(uint32_t item) {
  unsigned at = atomic_load_explicit(&push_at, memory_order_relaxed);
  for (;;) {
    const unsigned turn = atomic_load_explicit(&slots[at % kSlots].turn, memory_order_acquire);
    if (turn == at) {
      if (atomic_compare_exchange_weak(&push_at, &at, at + 1)) break;
    } else if ((int)(turn - at) < 0) {
      return 0;
    } else {
      at = atomic_load_explicit(&push_at, memory_order_relaxed);
    }
  }
  slots[at % kSlots].item = item;
  atomic_store_explicit(&slots[at % kSlots].turn, at + 1, memory_order_release);
  return 1;
}

static int pop(uint32_t* item) {
  unsigned at = atomic_load_explicit(&pop_at, memory_order_relaxed);
  for (;;) {
    const unsigned turn = atomic_load_explicit(&slots[at % kSlots].turn, memory_order_acquire);
    if (turn == at + 1) {
      if (atomic_compare_exchange_weak(&pop_at, &at, at + 1)) break;
    } else if ((int)(turn - (at + 1)) < 0) {
      return 0;
    } else {
      at = atomic_load_explicit(&pop_at, memory_order_relaxed);
    }
  }
  *item = slots[at % kSlots].item;
  atomic_store_explicit(&slots[at % kSlots].turn, at + kSlots, memory_order_release);
  return 1;
}

static void* produce(void* argument) {
  for (uint32_t i = 1; i <= kEach; i++) {
    while (!push((uint32_t)(intptr_t)argument * kEach + i)) sched_yield();
  }
  return NULL;
}

static void* consume(void* argument) {
  (void)argument;
  uint32_t item;
  while (atomic_load(&popped) < kProducers * kEach) {
    if (!pop(&item)) {
      sched_yield();
      continue;
    }
    atomic_fetch_add(&popped, 1);
    atomic_fetch_add(&sum, item);
    atomic_fetch_add(&squares, (uint64_t)item * item);
  }
  return NULL;
}

int main(void) {
  for (unsigned i = 0; i < kSlots; i++) atomic_init(&slots[i].turn, i);
  pthread_t threads[kProducers + kConsumers];
  for (int i = 0; i < kProducers + kConsumers; i++) {
    pthread_create(&threads[i], NULL, i < kProducers ? produce : consume, (void*)(intptr_t)i);
  }
  for (int i = 0; i < kProducers + kConsumers; i++) pthread_join(threads[i], NULL);
  printf("popped %u, sum %llu, squares %llu\n", popped, sum, squares);
  return 0;
}
