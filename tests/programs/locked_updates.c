// Locked instructions of all kinds on words that three threads share, one of them across two pages,
// while signals come; and such that fault.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "tests/programs/require.h"

enum { kThreads = 3, kRounds = 30000, kFaults = 50, kPage = 4096 };

// Each in a line of the cache of its own.
struct Shared {
  _Alignas(64) uint64_t increments;
  _Alignas(64) uint64_t differences;
  _Alignas(64) uint32_t sums;
  _Alignas(64) uint32_t bits;
  _Alignas(64) uint32_t toggled;
  _Alignas(64) uint64_t inverted;
  _Alignas(64) uint32_t lock;
  _Alignas(64) uint64_t last;
};

static struct Shared shared;
static _Alignas(kPage) char pages[2 * kPage];
static uint64_t guarded;
static volatile uint64_t ticks;
static __thread uint64_t own;

static void on_alarm(int signal) {
  (void)signal;
  __atomic_fetch_add(&ticks, 1, __ATOMIC_SEQ_CST);
}

static uint32_t exchange(uint32_t* word, uint32_t value) {
  __asm__ volatile("xchgl %0, %1" : "+r"(value), "+m"(*word));
  return value;
}

static void update_under_lock(void) {
  while (exchange(&shared.lock, 1) != 0) {
    while (__atomic_load_n(&shared.lock, __ATOMIC_RELAXED) != 0) __asm__ volatile("pause");
  }
  guarded++;
  REQUIRE(exchange(&shared.lock, 0) == 1);
}

static void update_bits(uint32_t bit) {
  __asm__ volatile("lock orl %1, %0" : "+m"(shared.bits) : "r"(bit));
  REQUIRE((__atomic_load_n(&shared.bits, __ATOMIC_SEQ_CST) & bit) != 0);
  __asm__ volatile("lock andl %1, %0" : "+m"(shared.bits) : "r"(~bit));
  REQUIRE((__atomic_load_n(&shared.bits, __ATOMIC_SEQ_CST) & bit) == 0);
  __asm__ volatile("lock xorl %1, %0" : "+m"(shared.toggled) : "r"(bit));
  __asm__ volatile("lock notq %0" : "+m"(shared.inverted));
}

// Whether what an instruction says is what it does.
static void update_alone(uint64_t round, uint32_t* counter) {
  unsigned char zero;
  __asm__ volatile("lock decl %0; setz %1" : "+m"(*counter), "=q"(zero));
  REQUIRE(zero == (*counter == 0));
  uint64_t before = 1;
  __asm__ volatile("lock xaddq %0, %1" : "+r"(before), "+m"(own));
  REQUIRE(before == round);
  const uint64_t expected = __atomic_load_n(&shared.last, __ATOMIC_RELAXED);
  uint64_t seen = expected;
  unsigned char same;
  __asm__ volatile("lock cmpxchgq %3, %1; setz %2"
                   : "+a"(seen), "+m"(shared.last), "=q"(same)
                   : "r"(expected + 1));
  REQUIRE(same == (seen == expected));
}

static void* update(void* argument) {
  const uint32_t bit = 1u << (uintptr_t)argument;
  uint64_t* const across = (uint64_t*)(pages + kPage - 3);
  uint32_t counter = 10;
  for (uint64_t round = 0; round < kRounds; round++) {
    __asm__ volatile("lock incq %0" : "+m"(shared.increments));
    __asm__ volatile("lock addl $3, %0" : "+m"(shared.sums));
    __asm__ volatile("lock subq %1, %0" : "+m"(shared.differences) : "r"(7ul));
    if (round % 64 == 0) __asm__ volatile("lock incq %0" : "+m"(*across));
    if (round % 8 == 0) update_under_lock();
    update_bits(bit);
    update_alone(round, &counter);
  }
  return NULL;
}

static sigjmp_buf again;
static volatile int faults;

static void on_fault(int signal) {
  (void)signal;
  faults++;
  siglongjmp(again, 1);
}

// Of a page that cannot be written, the end of that, and one that is not there.
static void fault(void) {
  char* const fixed = mmap(NULL, 2 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(fixed != MAP_FAILED && munmap(fixed + kPage, kPage) == 0);
  REQUIRE(signal(SIGSEGV, on_fault) != SIG_ERR);
  for (volatile int i = 0; i < kFaults; i++) {
    uint64_t value = 3;
    if (sigsetjmp(again, 1) != 0) continue;
    if (i % 3 == 0) __asm__ volatile("lock incq %0" : "+m"(*fixed));
    if (i % 3 == 1) __asm__ volatile("lock addl $1, %0" : "+m"(*(fixed + kPage - 2)));
    __asm__ volatile("xchgq %0, %1" : "+r"(value), "+m"(*(fixed + kPage)));
  }
  REQUIRE(faults == kFaults);
  REQUIRE(mprotect(fixed, kPage, PROT_READ | PROT_WRITE) == 0);
  __asm__ volatile("lock incq %0" : "+m"(*fixed));
  REQUIRE(*(uint64_t*)fixed == 1);
}

int main(void) {
  const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  REQUIRE(sigaction(SIGALRM, &action, NULL) == 0);
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  REQUIRE(setitimer(ITIMER_REAL, &often, NULL) == 0);
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; i++) {
    REQUIRE(pthread_create(&threads[i], NULL, update, (void*)i) == 0);
  }
  for (int i = 0; i < kThreads; i++) REQUIRE(pthread_join(threads[i], NULL) == 0);
  REQUIRE(setitimer(ITIMER_REAL, &never, NULL) == 0);
  const uint64_t all = (uint64_t)kThreads * kRounds;
  REQUIRE(shared.increments == all && shared.sums == 3 * all && shared.differences == -7 * all);
  REQUIRE(shared.bits == 0 && shared.toggled == 0 && shared.inverted == 0);
  REQUIRE(*(uint64_t*)(pages + kPage - 3) == kThreads * ((kRounds + 63) / 64));
  REQUIRE(guarded == kThreads * ((kRounds + 7) / 8));
  fault();
  printf("%d faults\n", faults);
  return 0;
}
