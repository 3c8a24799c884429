// Keeps work out of the way of other programs: it is done a step at a time, when a processor has
// nothing else to do.
//
// Steps are run by a thread of policy SCHED_IDLE, which whatever else wants the processor
// interrupts at once. (A thread of ordinary priority that waits for an idle processor first is no
// substitute: threads that wait for each other at a barrier leave a processor idle because the step
// before kept one of them from running.) That thread could never be made to hurry without the right
// to raise a priority: what hurries, and what has waited for too long, is run by the thread that
// asks for it.
//
// Not copyable. Run: one host thread; Hurry: any.

#ifndef HINDSIGHT_RECORDER_PACE_IDLE_PACE_H_
#define HINDSIGHT_RECORDER_PACE_IDLE_PACE_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace hindsight {

class IdlePace {
 public:
  // Bytes of a step: a millisecond of reading, hashing and compressing.
  static constexpr uint64_t kStepBytes = 512 << 10;
  // A step that has not begun after this time is done in any case, so that a machine that is always
  // busy writes 5 MB in a second, with 1 % of a processor.
  static constexpr int kLongestWaitMs = 100;

  IdlePace();
  ~IdlePace();
  IdlePace(const IdlePace&) = delete;
  IdlePace& operator=(const IdlePace&) = delete;

  // Runs `step`, on this thread or another, and waits for its end.
  void Run(absl::FunctionRef<void()> step);
  // From now on, whether steps begin at once.
  void Hurry(bool hurry);

 private:
  struct Ends;

  const std::shared_ptr<Ends> ends_;  // shared with the thread, which may take long to see the end
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PACE_IDLE_PACE_H_
