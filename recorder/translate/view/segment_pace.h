// After how many instructions a translated thread's segment ends.
//
// Runs inside the program: no library. The thread's alone.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_SEGMENT_PACE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_SEGMENT_PACE_H_

#include <stdint.h>

namespace hindsight {

class SegmentPace {
 public:
  // What `pages` that a segment begins with are worth, in instructions, `each` so many. Of a view
  // most have changed by the time the next one begins, and all of them are stored again: then it is
  // twice as many, but not more than kLongest: who goes back into a segment replays what is before.
  static uint64_t Worth(uint64_t pages, uint64_t each, bool of_view) {
    const uint64_t worth = pages * each;
    if (!of_view || worth >= kLongest) return worth;
    return 2 * worth < kLongest ? 2 * worth : kLongest;
  }

  // A segment begins in state `start`. `interval`: instructions; 0: it does not end by itself.
  void Begin(uint64_t start, uint64_t interval) {
    start_ = start;
    next_ = interval == 0 ? kNever : start + interval;
  }

  uint64_t start() const { return start_; }
  // The state in which IsDue is to be asked again.
  uint64_t next() const { return next_; }

  // Whether it ends in state `count`, as a block of `block` instructions might reach over its end.
  // It is worth as many as `worthwhile`.
  bool IsDue(uint64_t count, uint64_t block, uint64_t worthwhile) {
    if (next_ > count + block) return false;
    if (count + block - start_ >= worthwhile) return true;
    next_ = start_ + worthwhile;
    return false;
  }

 private:
  static constexpr uint64_t kNever = uint64_t{1} << 62;
  static constexpr uint64_t kLongest = 400'000'000;

  uint64_t start_ = 0;
  uint64_t next_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_SEGMENT_PACE_H_
