// The futex system call itself: wait, wake, bit sets, requeue, time limits, wake-op, and waitv.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#include "tests/programs/require.h"

enum { kWaiters = 4 };

static atomic_uint word, other, waiting, woken;
static atomic_uint bits_woken;

static long futex(atomic_uint* address, int operation, unsigned value, const void* timeout,
                  atomic_uint* second, unsigned value3) {
  return syscall(SYS_futex, address, operation, value, timeout, second, value3);
}

static void* waits(void* argument) {
  atomic_fetch_add(&waiting, 1);
  while (atomic_load(&word) == 0) futex(&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
  atomic_fetch_add(&woken, 1);
  return argument;
}

static void* waits_for_bit(void* argument) {
  const unsigned bit = 1u << (uintptr_t)argument;
  atomic_fetch_add(&waiting, 1);
  // Not in a loop: only the bit wakes it.
  REQUIRE(futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, bit) == 0);
  atomic_fetch_or(&bits_woken, bit);
  return NULL;
}

static void start(pthread_t* threads, void* (*run)(void*)) {
  atomic_store(&word, 0);
  atomic_store(&waiting, 0);
  for (int i = 0; i < kWaiters; i++) {
    REQUIRE(pthread_create(&threads[i], NULL, run, (void*)(intptr_t)i) == 0);
  }
  while (atomic_load(&waiting) < kWaiters) sched_yield();
}

static void join(pthread_t* threads) {
  for (int i = 0; i < kWaiters; i++) pthread_join(threads[i], NULL);
}

int main(void) {
  pthread_t threads[kWaiters];
  start(threads, waits);
  atomic_store(&word, 1);
  futex(&word, FUTEX_WAKE_PRIVATE, kWaiters, NULL, NULL, 0);
  join(threads);
  printf("woken %u\n", woken);

  start(threads, waits_for_bit);
  for (int i = kWaiters - 1; i >= 0; i--) {
    // Until it sleeps there is no thread to wake.
    while (futex(&word, FUTEX_WAKE_BITSET_PRIVATE, 9, NULL, NULL, 1u << i) == 0) sched_yield();
  }
  join(threads);
  printf("bits %x\n", bits_woken);

  start(threads, waits);
  unsigned moved = 0;  // to the other word, without waking
  while (moved < kWaiters) {
    const long result = futex(&word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void*)9, &other, 0);
    REQUIRE(result >= 0);
    moved += (unsigned)result;
    sched_yield();
  }
  atomic_store(&word, 1);
  printf("moved %u, woken at the other %ld\n", moved,
         futex(&other, FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0));
  join(threads);

  const struct timespec moment = {0, 2000000};
  atomic_store(&word, 7);
  printf("time limit: %s\n",
         futex(&word, FUTEX_WAIT_PRIVATE, 7, &moment, NULL, 0) == -1 && errno == ETIMEDOUT
             ? "passed"
             : "?");
  printf(
      "changed before: %s\n",
      futex(&word, FUTEX_WAIT_PRIVATE, 8, NULL, NULL, 0) == -1 && errno == EAGAIN ? "again" : "?");
  // The kernel itself adds 5 to the second word and compares what was there before.
  atomic_store(&other, 3);
  REQUIRE(futex(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void*)1, &other,
                FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 3)) >= 0);
  printf("kernel's addition: %u\n", other);
  return 0;
}
