// When the turn of a thread ends, and how far it runs at once.
//
//   turn   the thread runs until another one is to go on: by count (TurnScheduler), or by time
//   leg    instructions between two looks at the clock; adapted, for instructions cost differently
//
// A turn is extended while no other thread wants one. The end of a turn is exact: a state, not the
// end of a block, or where a system call returns. It also holds the state in which a signal delayed
// by chaos is delivered.
//
// Times are nanoseconds since the recording began. Borrows the scheduler. Copyable. One host
// thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_TURN_CLOCK_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_TURN_CLOCK_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "recorder/emulate/thread/turn_scheduler.h"

namespace hindsight {

class TurnClock {
 public:
  // A thread that is not alone gives others a turn after so many instructions on average, or more
  // where it has much memory to bring along, or a millisecond.
  static constexpr uint64_t kSharedQuantum = 100'000;

  // Where the thread is.
  struct Now {
    uint64_t count = 0;
    uint64_t ns = 0;
    bool alone = false;  // no other thread can run
  };
  struct Leg {
    uint64_t limit = 0;  // the state that it ends in
    bool exact = false;  // exactly there: else at the end of a block
  };

  // `quantum`: instructions of a turn of a thread that is alone, and at most of any.
  TurnClock(TurnScheduler* scheduler, uint64_t quantum)
      : scheduler_(scheduler), quantum_(quantum) {}

  // The turn begins. `switched_ns`: when bringing the thread's memory along began.
  void Begin(uint64_t switched_ns, const Now& now);
  // Whether it is over; else it goes on, extended if need be. `after_call`: a system call has just
  // returned, where a turn whose time is over ends at once. `others_wait` (which costs a system
  // call): another thread wants a turn.
  bool IsOver(const Now& now, bool after_call, absl::FunctionRef<bool()> others_wait);
  // It has ended. `switch_ns`: what bringing the thread's memory along took, before and after it.
  void End(uint64_t switch_ns);

  // The next leg, which ends at `limit` at the latest. `short_leg`: others, or a timer, wait.
  Leg NextLeg(uint64_t count, uint64_t limit, bool alone, bool short_leg,
              absl::FunctionRef<bool()> others_wait) const;
  // A short leg from state `first` took so long. `reached_limit`: nothing else ended it.
  void NoteLeg(uint64_t first, const Leg& leg, bool reached_limit, uint64_t ns);

  // With chaos, a signal is pending and is to be delivered later than now.
  bool delays_signal() const { return signal_at_ != 0; }
  void DelaySignal(uint64_t count);
  bool SignalIsDue(uint64_t count) const { return count >= signal_at_; }
  // Delivers it in state `count` instead. Requires: delays_signal().
  void MoveSignalTo(uint64_t count) { signal_at_ = count; }
  // It has been delivered, or is pending no more. True if there was one.
  bool ForgetSignal();

 private:
  void Extend(const Now& now);

  TurnScheduler* const scheduler_;
  const uint64_t quantum_;
  uint64_t leg_ = 20'000;         // instructions of a short leg
  uint64_t turn_ns_ = 1'000'000;  // what a turn among others may take
  uint64_t begun_ns_ = 0;         // when bringing memory along began
  uint64_t end_ = 0;              // the state in which the turn ends, if not alone
  uint64_t end_ns_ = 0;           // or soon after this
  bool was_alone_ = false;        // when those were set
  uint64_t signal_at_ = 0;        // 0: none is delayed
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_TURN_CLOCK_H_
