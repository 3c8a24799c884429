// After how many instructions a thread's segment ends, and a light keyframe begins another.
//
// Copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_SEGMENT_SCHEDULE_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_SEGMENT_SCHEDULE_H_

#include <cstdint>

namespace hindsight {

class SegmentSchedule {
 public:
  // `interval`: instructions of a segment; 0: light keyframes are not made by count. `adapt`:
  // segments may be longer.
  SegmentSchedule(uint64_t interval, bool adapt) : interval_(interval), adapt_(adapt) {}

  // The state from which on the segment is to end.
  uint64_t next() const { return next_; }
  // A segment begins in state `count`, after one that imported `pages`.
  void Begin(uint64_t count, uint64_t pages);

 private:
  const uint64_t interval_;
  const bool adapt_;
  uint64_t next_ = ~uint64_t{0};
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_SEGMENT_SCHEDULE_H_
