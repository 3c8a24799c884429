#include "tracefmt/storage/page_index.h"

#include <xxhash.h>

#include <cstring>

namespace hindsight {

bool IsZeroPage(absl::Span<const uint8_t> page) {
  // Compared with itself shifted by one: memcmp is the fastest loop at hand.
  return page.empty() ||
         (page[0] == 0 && std::memcmp(page.data(), page.data() + 1, page.size() - 1) == 0);
}

PageIndex::Hash PageIndex::HashOf(absl::Span<const uint8_t> page) {
  const XXH128_hash_t hash = XXH3_128bits(page.data(), page.size());
  return {hash.low64, hash.high64};
}

}  // namespace hindsight
