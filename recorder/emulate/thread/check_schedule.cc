#include "recorder/emulate/thread/check_schedule.h"

#include <algorithm>

namespace hindsight {
namespace {

constexpr uint64_t kMillion = 1'000'000;
// Most code is met early: there the distance grows with what has been executed.
constexpr uint64_t kFirstMean = 1000;
constexpr uint64_t kGrowth = 16;
// Pieces of different sizes: one has one block, another a run of assisted instructions.
constexpr uint64_t kMostInstructions = 24;

}  // namespace

void CheckSchedule::Schedule(uint64_t count) {
  if (per_million_ == 0) return;
  const uint64_t wanted = std::max<uint64_t>(1, kMillion / per_million_);
  const uint64_t mean = std::min(wanted, std::max(kFirstMean, count / kGrowth));
  next_ = count + 1 + random_() % (2 * mean);
}

uint64_t CheckSchedule::PickLength() { return 1 + random_() % kMostInstructions; }

}  // namespace hindsight
