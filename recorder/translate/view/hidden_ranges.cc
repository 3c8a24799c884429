#include "recorder/translate/view/hidden_ranges.h"

namespace hindsight {

int HiddenRanges::FirstAfter(uint64_t address) const {
  int low = 0, high = count_;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (ranges_[middle].end > address) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

void HiddenRanges::Insert(int at, const Range& range) {
  if (count_ == kMost) {
    lost_ = true;
    return;
  }
  for (int i = count_; i > at; --i) ranges_[i] = ranges_[i - 1];
  ranges_[at] = range;
  ++count_;
}

void HiddenRanges::Erase(int at) {
  --count_;
  for (int i = at; i < count_; ++i) ranges_[i] = ranges_[i + 1];
}

void HiddenRanges::Add(uint64_t start, uint64_t end, bool told) {
  int at = FirstAfter(start);
  while (start < end && !lost_) {
    // What lies before the next one; after that, what lies after it.
    const bool last = at == count_ || ranges_[at].start >= end;
    const uint64_t gap_end = last ? end : ranges_[at].start;
    if (start < gap_end) {
      if (at > 0 && ranges_[at - 1].end == start && ranges_[at - 1].told == told) {
        ranges_[at - 1].end = gap_end;
      } else {
        Insert(at++, {start, gap_end, told});
      }
    }
    if (last || lost_) return;
    start = ranges_[at++].end;
  }
}

void HiddenRanges::Remove(uint64_t start, uint64_t end) {
  if (start >= end) return;
  for (int at = FirstAfter(start); at < count_ && ranges_[at].start < end;) {
    Range& range = ranges_[at];
    const Range rest = {end, range.end, range.told};
    if (range.start < start) {
      range.end = start;
      ++at;
    } else {
      Erase(at);
    }
    if (rest.start < rest.end) return Insert(at, rest);
  }
}

void HiddenRanges::Change(uint64_t start, uint64_t end) {
  while (start < end) {
    const int at = FirstAfter(start);
    if (at == count_ || ranges_[at].start >= end) return;
    const uint64_t from = ranges_[at].start > start ? ranges_[at].start : start;
    start = ranges_[at].end < end ? ranges_[at].end : end;
    if (ranges_[at].told) {
      Remove(from, start);
      Add(from, start, /*told=*/false);
    }
  }
}

void HiddenRanges::BeginSegment() {
  int kept = 0;
  for (int i = 0; i < count_; ++i) {
    if (kept > 0 && ranges_[kept - 1].end == ranges_[i].start) {
      ranges_[kept - 1].end = ranges_[i].end;
    } else {
      ranges_[kept++] = {ranges_[i].start, ranges_[i].end, false};
    }
  }
  count_ = kept;
}

bool HiddenRanges::AnyIn(uint64_t start, uint64_t end) const {
  if (start >= end) return false;
  if (lost_) return true;
  const int at = FirstAfter(start);
  return at < count_ && ranges_[at].start < end;
}

}  // namespace hindsight
