// Which states of a thread a self-check begins in (BlockCheck), and how much it compares: by
// chance, so that a loop is not always met in the same state, and alike in each recording.
//
// Copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_CHECK_SCHEDULE_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_CHECK_SCHEDULE_H_

#include <cstdint>
#include <random>

namespace hindsight {

class CheckSchedule {
 public:
  // Checks per million instructions, on average; 0: none.
  explicit CheckSchedule(uint64_t per_million) : per_million_(per_million) {}

  // The state from which on the next check is due.
  uint64_t next() const { return next_; }
  // Chooses the next one, after state `count`.
  void Schedule(uint64_t count);
  // How many instructions the check that begins compares.
  uint64_t PickLength();

 private:
  const uint64_t per_million_;
  uint64_t next_ = ~uint64_t{0};
  std::minstd_rand random_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_CHECK_SCHEDULE_H_
