// What memory_truth.c, memory_truth_calls.c and the test that looks at them share.

#ifndef HINDSIGHT_RECORDER_TESTDATA_MEMORY_TRUTH_H_
#define HINDSIGHT_RECORDER_TESTDATA_MEMORY_TRUTH_H_

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Ends the program with status 99 and says where, unless the condition holds.
#define REQUIRE(condition)                                                                     \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      dprintf(2, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, strerror(errno)); \
      _exit(99);                                                                               \
    }                                                                                          \
  } while (0)

// Where the program stands.
enum Situation { BEGIN, IN_MAIN, IN_THREAD, FORKED, IN_CHILD, PROTECTED };

// "Look at me, thread `thread` of `process`, while I read from descriptor `answers`."
struct Request {
  int32_t process, thread, answers;
  int32_t situation;
};

enum RegionKind { ANONYMOUS, FIXED };

struct Region {
  char* start;
  size_t size;
  int kind;
};

uint64_t random_below(uint64_t bound);
// Room for `size` bytes somewhere in the memory that is played with.
char* place(size_t size);
// Has the kernel write to memory, by a system call chosen at random.
void call_kernel(void);
void prepare_calls(void);

#endif  // HINDSIGHT_RECORDER_TESTDATA_MEMORY_TRUTH_H_
