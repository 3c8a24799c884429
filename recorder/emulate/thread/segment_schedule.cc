#include "recorder/emulate/thread/segment_schedule.h"

#include <algorithm>

namespace hindsight {
namespace {

// A segment imports once more all that the thread uses: where that is much, segments are longer.
constexpr uint64_t kInstructionsPerPage = 80'000;  // 0.05 bytes an instruction
constexpr uint64_t kLongest = 16;                  // times the interval

}  // namespace

void SegmentSchedule::Begin(uint64_t count, uint64_t pages) {
  if (interval_ == 0) return;
  const uint64_t length =
      adapt_ ? std::clamp(pages * kInstructionsPerPage, interval_, kLongest * interval_)
             : interval_;
  next_ = count + length;
}

}  // namespace hindsight
