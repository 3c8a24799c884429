#include "keyframes/replay/checkpoint_pace.h"

#include <limits>

namespace hindsight {
namespace {

// About 30 ms of replay lie between checkpoints taken as a long replay goes ...
constexpr uint64_t kIntervalStates = 4'000'000;
// ... or more where many pages are written: a first write costs about 3 us, and the interval keeps
// that below a sixth of the time.
constexpr uint64_t kIntervalStatesPerPage = 2'000;

}  // namespace

void CheckpointPace::Begin() {
  spent_ = 0;
  interval_ = kIntervalStates;
}

uint64_t CheckpointPace::StatesToNext() const {
  if (!takes_as_it_goes()) return std::numeric_limits<uint64_t>::max();
  return std::max<uint64_t>(1, interval_ - std::min(spent_, interval_));
}

void CheckpointPace::SetInterval(uint64_t dirty_pages) {
  interval_ = std::max(kIntervalStates, dirty_pages * kIntervalStatesPerPage);
}

}  // namespace hindsight
