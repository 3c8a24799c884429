// Keeps work out of the way of other programs: a step at a time, when a processor has nothing else
// to do.
//
// A thread of policy SCHED_IDLE looks whether it is let run for a while, and if it is, the next
// step may be done. (That it runs at all says little: it has a three hundredth of a processor that
// is busy.) The work itself is at ordinary priority, so that it can be made to hurry without any
// right to raise a priority, and holds no lock in a thread that does not get to run.
//
// Not copyable. Spend: one host thread; Hurry: any.

#ifndef HINDSIGHT_RECORDER_PACE_IDLE_PACE_H_
#define HINDSIGHT_RECORDER_PACE_IDLE_PACE_H_

#include <atomic>
#include <cstdint>
#include <memory>

namespace hindsight {

class IdlePace {
 public:
  // Bytes of a step: one or two milliseconds of reading, hashing and compressing.
  static constexpr uint64_t kStepBytes = 1 << 20;
  // So long a processor has nothing else to do before a step is done: longer than the pauses of
  // threads that wait for each other.
  static constexpr int kLookMicroseconds = 250;
  // A step is done after this time in any case, so that a machine that is always busy writes 20 MB
  // in a second, with 3% of a processor.
  static constexpr int kLongestWaitMs = 50;

  IdlePace();
  ~IdlePace();
  IdlePace(const IdlePace&) = delete;
  IdlePace& operator=(const IdlePace&) = delete;

  // Before work on so many bytes: waits if they begin a new step.
  void Spend(uint64_t bytes);
  // From now on, whether Spend waits at all.
  void Hurry(bool hurry);

 private:
  struct Ends;
  void Wait();

  const std::shared_ptr<Ends> ends_;  // shared with the thread, which may take long to see the end
  std::atomic<bool> hurry_{false};
  uint64_t spent_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PACE_IDLE_PACE_H_
