// Ranges of a process's memory that nobody may access (PROT_NONE). What they hold is not told when
// a segment begins, since it cannot be read; once they may be accessed again it has to be.
//
// Runs inside the program: no library, no allocation. One thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_HIDDEN_RANGES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_HIDDEN_RANGES_H_

#include <stdint.h>

namespace hindsight {

class HiddenRanges {
 public:
  static constexpr int kMost = 512;

  // [start, end) may not be accessed any more. `told`: this segment has what it holds. What is
  // hidden already stays as it is.
  void Add(uint64_t start, uint64_t end, bool told);
  // It may be accessed, or is not mapped.
  void Remove(uint64_t start, uint64_t end);
  // What is hidden of it holds something else now, which the segment does not have.
  void Change(uint64_t start, uint64_t end);
  // A segment has begun: of nothing that is hidden it has what it holds.
  void BeginSegment();

  // Whether any of [start, end) is hidden, or may be.
  bool AnyIn(uint64_t start, uint64_t end) const;
  // Calls `visit(start, end)` for each part of [start, end), ascending, that is hidden and of which
  // the segment may not have what it holds.
  template <typename Visit>
  void ForEachUntold(uint64_t start, uint64_t end, const Visit& visit) const {
    if (start >= end) return;
    if (lost_) return visit(start, end);
    for (int i = FirstAfter(start); i < count_ && ranges_[i].start < end; ++i) {
      const Range& range = ranges_[i];
      if (range.told) continue;
      visit(range.start > start ? range.start : start, range.end < end ? range.end : end);
    }
  }

 private:
  struct Range {
    uint64_t start, end;
    bool told;
  };

  // The first range that ends after `address`.
  int FirstAfter(uint64_t address) const;
  void Insert(int at, const Range& range);
  void Erase(int at);

  // Ascending. Where there were more any memory may be hidden, untold, from then on.
  Range ranges_[kMost] = {};
  int count_ = 0;
  bool lost_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_HIDDEN_RANGES_H_
