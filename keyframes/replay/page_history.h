// When the pages of one segment were left, and imported again.
//
// A page that was left is not known any more until it is imported again: the view still has its old
// bytes, because replay goes on with them, but a debugger must not see them.
//
// A value, made of a segment's records, which it does not need afterwards. Next to nothing where no
// page was left.

#ifndef HINDSIGHT_KEYFRAMES_REPLAY_PAGE_HISTORY_H_
#define HINDSIGHT_KEYFRAMES_REPLAY_PAGE_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "tracefmt/records.h"

namespace hindsight {

class PageHistory {
 public:
  PageHistory() = default;
  explicit PageHistory(absl::Span<const Record> records);

  // No page was left.
  bool empty() const { return pages_.empty(); }

  // If `page` was left, and not imported again, in the first `records` of the segment: the state in
  // which that was.
  std::optional<uint64_t> LeftSince(uint64_t page, size_t records) const;

  // From the state in which the page was left to that of its next import, if there is one.
  struct Span {
    uint64_t left = 0;
    std::optional<uint64_t> known;
  };
  std::vector<Span> SpansOf(uint64_t page) const;

 private:
  struct Event {
    size_t record = 0;
    uint64_t count = 0;
    bool import = false;
  };
  absl::flat_hash_map<uint64_t, std::vector<Event>> pages_;  // from where each was left first
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_REPLAY_PAGE_HISTORY_H_
