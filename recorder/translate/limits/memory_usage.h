// How much memory the process has mapped, as the kernel counts it for limits.
//
// Used by the agent as well: no library.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_LIMITS_MEMORY_USAGE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_LIMITS_MEMORY_USAGE_H_

#include <stdint.h>

namespace hindsight {

struct MappedBytes {
  uint64_t all;          // what RLIMIT_AS counts
  uint64_t data;         // what RLIMIT_DATA counts: private and writable
  uint64_t can_be_data;  // private
};

struct MemoryUsage {
  MappedBytes total;
  MappedBytes in_range;
};

// Whether a mapped region counts. Stacks that grow are data to nobody: they should not.
using IsCounted = bool (*)(uint64_t start, uint64_t end);

// Of the whole process, and of [start, end) of it, by /proc/self/maps. All is 0 if that cannot be
// read.
MemoryUsage CountMemory(uint64_t start, uint64_t end, IsCounted is_counted);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_LIMITS_MEMORY_USAGE_H_
