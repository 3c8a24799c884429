// Chooses which segments of a thread others refer to, and which page imports need not be stored
// because the reference segment has the same.
//
// A segment begins with all that its thread has in use, and much of that never changes. A segment
// is a reference until one that refers to it stores more than it refers to, or all of them together
// have stored as much as a new reference would take: what has changed since is stored by each, and
// what the first ones store is stored anyway. Contents are compared by hash (XXH3-128, with a seed
// of the process's own).

#ifndef HINDSIGHT_TRACEFMT_REFERENCES_REFERENCE_CHOICE_H_
#define HINDSIGHT_TRACEFMT_REFERENCES_REFERENCE_CHOICE_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "tracefmt/records.h"

namespace hindsight {

class ReferenceChoice {
 public:
  // Segment `number` of the thread begins. Which one it refers to; none: later ones may refer to
  // it.
  std::optional<uint64_t> BeginSegment(uint64_t number);
  // Whether `page`, an import of the segment, can be written as a ReferencedPage. All of them, in
  // order.
  bool Refers(const PageImport& page);

 private:
  using Hash = std::pair<uint64_t, uint64_t>;
  static constexpr Hash kNothing = {0, 0};  // of what nothing is the same as

  static Hash HashOf(const PageImport& page);

  std::optional<uint64_t> reference_;
  bool refers_ = false;                           // the segment does
  absl::flat_hash_map<uint64_t, Hash> pages_;     // of the reference, by address
  uint64_t stored_bytes_ = 0, saved_bytes_ = 0;   // of the segment's first imports
  uint64_t reference_bytes_ = 0;                  // of the reference's
  uint64_t least_stored_ = 0, excess_bytes_ = 0;  // of those that refer to it
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_REFERENCES_REFERENCE_CHOICE_H_
