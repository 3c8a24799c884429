// The hash of MemoryHash records: XXH3-64 of the bytes.

#ifndef HINDSIGHT_TRACEFMT_MEMORY_HASH_H_
#define HINDSIGHT_TRACEFMT_MEMORY_HASH_H_

#include <xxhash.h>

#include <cstdint>

#include "absl/types/span.h"

namespace hindsight {

inline uint64_t HashMemory(absl::Span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MEMORY_HASH_H_
