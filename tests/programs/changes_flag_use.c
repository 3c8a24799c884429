// Code in writable memory that first overwrites the flags and then, changed, reads those that
// whoever led there had set: by a return, an indirect jump, a direct one. Ends with 0 if each way
// is right.
//
//   changes_flag_use          a process of one thread
//   changes_flag_use threads  memory is shared with a thread
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/programs/require.h"

enum { kWays = 3, kRounds = 200, kPlace = 64, kWayBytes = 128 };

// Each returns 1 if rdi is rsi: the flags of their comparison are read at a place to which a
// return, an indirect jump (to rdx) or a direct one leads. The first two bytes there are changed.
static const uint8_t kReturn[] = {
    0xe8, 0x5b, 0, 0, 0,  // call +0x60
};
static const uint8_t kCalled[] = {0x48, 0x39, 0xf7, 0xc3};  // cmp %rsi, %rdi; ret
static const uint8_t kRead[] = {
    0x74, 0x03,              // je over; changed: xor %ecx, %ecx
    0x31, 0xc0, 0xc3,        // xor %eax, %eax; ret
    0xb8, 1,    0,    0, 0,  // over: mov $1, %eax
    0xc3,
};

static uint8_t* code;

// The code of way `way`; the bytes that change are at [*place].
static void make(int way, uint8_t** entry, uint8_t** place) {
  uint8_t* at = code + way * kWayBytes;
  *entry = at;
  if (way == 0) {
    memcpy(at, kReturn, sizeof(kReturn));
    memcpy(at + 0x60, kCalled, sizeof(kCalled));
    *place = at + sizeof(kReturn);
  } else {
    static const uint8_t kIndirect[] = {0x48, 0x39, 0xf7, 0xff, 0xe2};  // cmp; jmp *%rdx
    static const uint8_t kDirect[] = {0x48, 0x39, 0xf7, 0xeb, kPlace - 5};
    memcpy(at, way == 1 ? kIndirect : kDirect, sizeof(kDirect));
    *place = at + kPlace;
  }
  memcpy(*place, kRead, sizeof(kRead));
}

static int works(int way) {
  uint8_t *entry, *place;
  make(way, &entry, &place);
  typedef int (*Function)(long a, long b, void* to);
  const Function function = (Function)(void*)entry;
  for (int round = 0; round < kRounds; round++) {
    // The first time is the one at which the change is found.
    for (long i = 7; i >= 0; i--) {
      if (function(i, 7, place) != (i == 7)) return 0;
    }
    memcpy(place, "\x31\xc9", 2);  // xor %ecx, %ecx
    for (long i = 0; i < 9; i++) {
      if (function(i, 7, place) != 0) return 0;
    }
    memcpy(place, kRead, 2);
  }
  return 1;
}

static void* do_nothing(void* unused) { return unused; }

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "threads") == 0) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, do_nothing, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
  }
  code = mmap(NULL, kWays * kWayBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(code != MAP_FAILED);
  for (int way = 0; way < kWays; way++) REQUIRE(works(way));
  return 0;
}
