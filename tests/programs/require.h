// REQUIRE(condition): ends the program with status 99 and says where, unless the condition holds.

#ifndef HINDSIGHT_TESTS_PROGRAMS_REQUIRE_H_
#define HINDSIGHT_TESTS_PROGRAMS_REQUIRE_H_

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Only one write: other threads may be anywhere.
#define REQUIRE(condition)                                                                     \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      dprintf(2, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, strerror(errno)); \
      _exit(99);                                                                               \
    }                                                                                          \
  } while (0)

#endif  // HINDSIGHT_TESTS_PROGRAMS_REQUIRE_H_
