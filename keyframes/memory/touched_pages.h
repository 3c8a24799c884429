// The pages that a segment touches, and in which states: what its records say, without a replay.
//
// A value. Immutable after its constructor: any number of host threads.

#ifndef HINDSIGHT_KEYFRAMES_MEMORY_TOUCHED_PAGES_H_
#define HINDSIGHT_KEYFRAMES_MEMORY_TOUCHED_PAGES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "tracefmt/records.h"

namespace hindsight {

// That a page comes in, in whole or in part, or leaves. Of several in a row that say the same of
// parts there is the first one only.
struct TouchedPage {
  uint64_t page = 0;
  uint64_t count = 0;  // the state
  bool left = false;
};

class TouchedPages {
 public:
  // `records`: of a segment (trace_reader.h).
  explicit TouchedPages(const std::vector<Record>& records);

  // Ascending pages, ascending states of each.
  const std::vector<TouchedPage>& all() const { return pages_; }
  // The last one of `page` up to the state `count`; null: there is none.
  const TouchedPage* LastOf(uint64_t page, uint64_t count) const;
  // Whether all of the page came in before in the same state. Requires: `touched` is one of these.
  bool CameInAgain(const TouchedPage& touched) const;
  // Whether the transition out of the state `count` is a system call: what touches pages in that
  // state does so before the call.
  bool IsCall(uint64_t count) const;
  // Whether any of the page comes in in the state `count`.
  static bool ComesInAt(const std::vector<Record>& records, uint64_t page, uint64_t count);
  // Whether the page may have come in, in a state of [from, to], although it is not listed.
  bool MayComeInUnlisted(uint64_t page, uint64_t from, uint64_t to) const;

 private:
  std::vector<TouchedPage> pages_;
  std::vector<uint64_t> calls_;  // the states before them, ascending
  // Of a segment that does not say all pages that it uses: those that it may, with the states.
  std::vector<std::pair<uint64_t, MappedRange>> unlisted_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_MEMORY_TOUCHED_PAGES_H_
