// Calls a function until nobody checks any more whether it has changed, then changes it in one of
// many ways and calls it again. With argument `threads` another thread calls it all the time. Ends
// with 0 if each call after a change has found it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kPage = 4096, kSettleMs = 150, kLateCalls = 3 };

// mov $value, %eax; ret
static const uint8_t kFunction[] = {0xb8, 0, 0, 0, 0, 0xc3};
// mov %edi, 1f+1(%rip); 1: mov $0, %eax; ret
static const uint8_t kChangesItself[] = {0x89, 0x3d, 1, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3};

static uint8_t* volatile code;
static volatile int calls_on = 1;
static _Atomic uint32_t last_seen;

static uint32_t number(void) { return ((uint32_t(*)(void))code)(); }

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void settle(uint32_t expected) {
  const long end = now_ms() + kSettleMs;
  while (now_ms() < end) {
    for (int i = 0; i < 1000; i++) REQUIRE(number() == expected);
    usleep(1000);
  }
}

static void* call_all_the_time(void* unused) {
  while (calls_on) {
    for (int i = 0; i < 1000; i++) last_seen = number();
    usleep(100);
  }
  return unused;
}

static uint8_t* map_code(void* at, uint32_t value) {
  uint8_t* const made = mmap(at, kPage, PROT_READ | PROT_WRITE | PROT_EXEC,
                             MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
  REQUIRE(made != MAP_FAILED);
  memcpy(made, kFunction, sizeof(kFunction));
  memcpy(made + 1, &value, sizeof(value));
  return made;
}

static void by_store(uint32_t value) { *(volatile uint32_t*)(code + 1) = value; }

static void by_exchange(uint32_t value) {
  __atomic_exchange_n((uint32_t*)(code + 1), value, __ATOMIC_SEQ_CST);
}

static void by_string(uint32_t value) {
  const void* from = &value;
  void* to = code + 1;
  uint64_t count = sizeof(value);
  __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
}

static void by_vector(uint32_t value) {
  uint8_t bytes[16];
  memcpy(bytes, code, sizeof(bytes));
  memcpy(bytes + 1, &value, sizeof(value));
  __asm__ volatile("movups (%0), %%xmm3; movups %%xmm3, (%1)"
                   :
                   : "r"(bytes), "r"(code)
                   : "memory", "xmm3");
}

static void by_kernel(uint32_t value) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  REQUIRE(write(ends[1], &value, sizeof(value)) == sizeof(value));
  REQUIRE(read(ends[0], code + 1, sizeof(value)) == sizeof(value));
  close(ends[0]);
  close(ends[1]);
}

static void by_memory_file(uint32_t value) {
  const int file = open("/proc/self/mem", O_RDWR);
  REQUIRE(file >= 0);
  REQUIRE(pwrite(file, &value, sizeof(value), (off_t)(uintptr_t)(code + 1)) == sizeof(value));
  close(file);
}

static void by_another_process(uint32_t value) {
  struct iovec from = {&value, sizeof(value)}, to = {code + 1, sizeof(value)};
  REQUIRE(process_vm_writev(getpid(), &from, 1, &to, 1, 0) == sizeof(value));
}

static void by_vfork(uint32_t value) {
  const pid_t child = vfork();
  if (child == 0) {
    *(volatile uint32_t*)(code + 1) = value;
    _exit(0);
  }
  REQUIRE(waitpid(child, NULL, 0) == child);
}

static void by_two_maps(uint32_t value) { map_code(code, value); }

static void by_protection(uint32_t value) {
  REQUIRE(mprotect(code, kPage, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
  by_store(value);
}

// A child's copy is its own.
static void after_fork(uint32_t value) {
  const uint32_t before = number();
  const pid_t child = fork();
  if (child == 0) {
    if (number() != before) _exit(1);
    by_store(value + 1000);
    for (int i = 0; i < 1000; i++) {
      if (number() != value + 1000) _exit(2);
    }
    settle(value + 1000);
    by_kernel(value + 2000);
    _exit(number() == value + 2000 ? 0 : 3);
  }
  int status;
  REQUIRE(number() == before);
  by_store(value);
  REQUIRE(number() == value);
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
}

static void* store_there(void* value) {
  by_store((uint32_t)(uintptr_t)value);
  return NULL;
}

static void by_another_thread(uint32_t value) {
  pthread_t thread;
  REQUIRE(pthread_create(&thread, NULL, store_there, (void*)(uintptr_t)value) == 0);
  while (number() != value) {
  }
  REQUIRE(pthread_join(thread, NULL) == 0);
}

static void dropped(uint32_t value) {
  REQUIRE(madvise(code, kPage, MADV_DONTNEED) == 0);
  REQUIRE(code[0] == 0);
  map_code(code, value);
}

// What is stored is executed at once; and whoever calls it is another function in the same page.
static void changes_itself(void) {
  uint32_t (*const function)(uint32_t) = (uint32_t(*)(uint32_t))(code + 256);
  memcpy(code + 256, kChangesItself, sizeof(kChangesItself));
  for (uint32_t round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < 1000; i++) REQUIRE(function(i) == i);
    settle(number());
  }
}

static _Atomic uint32_t called_for, found;

static void* call_now_and_then(void* unused) {
  for (uint32_t seen = 0; seen != kLateCalls; seen = called_for) {
    while (called_for == seen) usleep(1000);
    found = number();
  }
  return unused;
}

// By who has not called it since it was another one, or never.
static void called_late(void) {
  pthread_t thread;
  code = map_code(NULL, 0);
  REQUIRE(pthread_create(&thread, NULL, call_now_and_then, NULL) == 0);
  for (uint32_t i = 1; i <= kLateCalls; i++) {
    by_store(i);
    settle(i);
    called_for = i;
    while (found != i) usleep(1000);
  }
  REQUIRE(pthread_join(thread, NULL) == 0);
}

int main(int argc, char** argv) {
  static void (*const kWays[])(uint32_t) = {
      by_store,          by_exchange,        by_string,      by_vector, by_kernel,
      by_two_maps,       by_vfork,           by_protection,  dropped,   after_fork,
      by_another_thread, by_another_process, by_memory_file,
  };
  enum { kWayCount = sizeof(kWays) / sizeof(kWays[0]) };
  const int threads = argc > 1 && strcmp(argv[1], "threads") == 0;
  uint32_t value = 1;
  code = map_code(NULL, value);
  pthread_t thread;
  if (threads) called_late();
  if (threads) REQUIRE(pthread_create(&thread, NULL, call_all_the_time, NULL) == 0);
  changes_itself();
  for (int way = 0; way < kWayCount; way++) {
    // The other one must not meet what is not there for a while.
    if (threads && (kWays[way] == by_two_maps || kWays[way] == dropped)) continue;
    // A second thread would be the end of a program that has one.
    if (!threads && kWays[way] == by_another_thread) continue;
    // Pages that have been changed often are checked for long.
    code = map_code(NULL, ++value);
    settle(value);
    kWays[way](++value);
    REQUIRE(number() == value);
    while (threads && last_seen != value) {
    }
  }
  calls_on = 0;
  if (threads) REQUIRE(pthread_join(thread, NULL) == 0);
  return 0;
}
