// How often a replay takes checkpoints, and how much memory they may use.
//
// Replay is measured in states: the time of one emulated instruction, about 10 ns. What costs more
// (a transition read from the trace, a page written for the first time after a checkpoint) counts
// as many states.

#ifndef HINDSIGHT_KEYFRAMES_REPLAY_CHECKPOINT_PACE_H_
#define HINDSIGHT_KEYFRAMES_REPLAY_CHECKPOINT_PACE_H_

#include <algorithm>
#include <cstdint>

namespace hindsight {

class CheckpointPace {
 public:
  // What a transition from the trace costs: about 1.6 us.
  static constexpr uint64_t kTransitionStates = 200;
  // Replays shorter than this leave no checkpoints: one costs about 2 us, and 10 us for each page
  // that is protected and then written again.
  static constexpr uint64_t kLeavingStates = 1'000;

  // A long replay takes checkpoints as it goes only if `max_bytes` is not 0.
  void set_max_bytes(uint64_t max_bytes) { max_bytes_ = max_bytes; }
  bool takes_as_it_goes() const { return max_bytes_ != 0; }
  // What all checkpoints may use. Replays that take none as they go need some after a fault.
  uint64_t limit_bytes() const { return max_bytes_ != 0 ? max_bytes_ : kFaultBytes; }

  // The replay begins a segment.
  void Begin();
  // The replay did work that costs `states`.
  void Spend(uint64_t states) { spent_ += states; }
  // The replay is at a checkpoint: it took one or went back to one.
  void AtCheckpoint() { spent_ = 0; }

  // States to replay until the next checkpoint is due, at least 1. Without limit if none are taken.
  uint64_t StatesToNext() const;
  bool IsDue() const { return takes_as_it_goes() && spent_ >= interval_; }
  // The next one is due later where many pages (`dirty_pages` since the last one) are written.
  void SetInterval(uint64_t dirty_pages);
  // Whether coming back here costs more than a checkpoint does.
  bool IsWorthOne(uint64_t dirty_pages) const {
    return spent_ > std::max(kLeavingStates, dirty_pages * kLeavingStatesPerPage);
  }

 private:
  static constexpr uint64_t kLeavingStatesPerPage = 1'000;
  static constexpr uint64_t kFaultBytes = uint64_t{64} << 20;

  uint64_t max_bytes_ = 0;
  uint64_t spent_ = 0;     // since the last checkpoint
  uint64_t interval_ = 0;  // between checkpoints taken as the replay goes
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_REPLAY_CHECKPOINT_PACE_H_
