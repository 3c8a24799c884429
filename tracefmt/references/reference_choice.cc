#include "tracefmt/references/reference_choice.h"

#include <xxhash.h>

#include <algorithm>
#include <random>

namespace hindsight {
namespace {

// So that what is lost with a damaged segment is bounded.
constexpr uint64_t kMostReferring = 64;

uint64_t Seed() {
  static const uint64_t seed = [] {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }();
  return seed;
}

}  // namespace

std::optional<uint64_t> ReferenceChoice::BeginSegment(uint64_t number) {
  if (refers_) {
    least_stored_ = std::min(least_stored_, stored_bytes_);
    excess_bytes_ += stored_bytes_ - least_stored_;
  } else {
    reference_bytes_ = stored_bytes_;
  }
  refers_ = reference_.has_value() && (!refers_ || stored_bytes_ <= saved_bytes_) &&
            excess_bytes_ <= reference_bytes_ && number - *reference_ <= kMostReferring;
  stored_bytes_ = saved_bytes_ = 0;
  if (refers_) return reference_;
  reference_ = number;
  least_stored_ = ~uint64_t{0};
  excess_bytes_ = 0;
  pages_.clear();
  return std::nullopt;
}

bool ReferenceChoice::Refers(const PageImport& page) {
  if (!page.first || page.module >= 0) return false;
  const Hash contents = HashOf(page);
  // Readers find the first import, whatever it has.
  if (!refers_) pages_.try_emplace(page.address, contents);
  // What takes no room needs no reference.
  if (page.known_mask != 0 || page.lines.empty()) return false;
  const auto found = pages_.find(page.address);
  const bool same = refers_ && found != pages_.end() && found->second == contents;
  (same ? saved_bytes_ : stored_bytes_) += page.lines.size();
  return same;
}

ReferenceChoice::Hash ReferenceChoice::HashOf(const PageImport& page) {
  if (page.known_mask != 0) return kNothing;
  const XXH128_hash_t hash =
      XXH3_128bits_withSeed(page.lines.data(), page.lines.size(), Seed() ^ page.line_mask);
  return {hash.low64, hash.high64};
}

}  // namespace hindsight
