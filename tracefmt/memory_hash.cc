#include "tracefmt/memory_hash.h"

#include <xxhash.h>

namespace hindsight {

uint64_t HashMemory(absl::Span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace hindsight
