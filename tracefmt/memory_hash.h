// The hash of MemoryHash records: XXH3-64 of the bytes.

#ifndef HINDSIGHT_TRACEFMT_MEMORY_HASH_H_
#define HINDSIGHT_TRACEFMT_MEMORY_HASH_H_

#include <cstdint>

#include "absl/types/span.h"

namespace hindsight {

uint64_t HashMemory(absl::Span<const uint8_t> bytes);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MEMORY_HASH_H_
