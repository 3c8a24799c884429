// CHECK for our own bugs, kept in release builds. Never for bad input: that is an absl::Status.

#ifndef HINDSIGHT_BASE_CHECK_H_
#define HINDSIGHT_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#endif  // HINDSIGHT_BASE_CHECK_H_
