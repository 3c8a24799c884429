// Page imports out of mapped ranges.
//
// A recorder that does not see when a page is first used records what ranges hold (MappedRange)
// and, at the end, which pages were used (UsedPages). With both known, every used page of a range
// has a PageImport right after the range's record: whoever reads a segment sees no other kind of
// first import. The rule is in docs/trace-format.md, "Mapped ranges".

#ifndef HINDSIGHT_TRACEFMT_RANGES_RANGE_EXPANSION_H_
#define HINDSIGHT_TRACEFMT_RANGES_RANGE_EXPANSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "tracefmt/records.h"
#include "tracefmt/storage/read_budget.h"

namespace hindsight {

struct ExpansionLimits {
  // Page imports made for a segment, and pages passed over because their contents are imported: 16
  // GB of pages. More is damage.
  uint64_t pages = 1 << 22;
  // Of a segment that does not say which pages were used all are imported, but no more than these,
  // 256 MB: ranges may be of terabytes. What lies beyond is left out.
  uint64_t pages_if_unknown = 1 << 16;
  // And no more than these of one range, of the first, so that something is left for others.
  uint64_t pages_of_unknown_range = 1 << 14;
};

// Inserts the page imports. Takes their memory from `budget`. kResourceExhausted: there are more
// than the limit or the budget allows; the records from the first range that is too much on are
// gone.
absl::Status ExpandRanges(ReadBudget* budget, std::vector<Record>* records,
                          const ExpansionLimits& limits = ExpansionLimits());

// Pages that no list has, though the thread uses them: a kernel that is short of memory takes pages
// of files back, and they are missing when the list is made; and of segments without a complete
// list, what lies beyond the limits.
class UnlistedPages {
 public:
  // `records`: of the segment, with the imports that ExpandRanges has made. Borrowed.
  void Find(const std::vector<Record>* records);
  // The import of a page that is used where the first `applied` of the records lead to. Nothing if
  // it is in no range of these, or in one of zeros, which complete lists have.
  std::optional<PageImport> ImportOf(size_t applied, uint64_t page) const;

 private:
  const std::vector<Record>* records_ = nullptr;
  std::vector<size_t> ranges_;  // which of the records are ranges
  bool complete_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RANGES_RANGE_EXPANSION_H_
