// With chaos: at which states a thread's turn ends, and its pending signals are delivered. Threads
// meet at locked instructions, and at writes to memory that other threads, or a signal's handler,
// may use: their faults show where a turn ends near such a state.
//
//   leg from `first` --------- x ------- x --------> present state      x: meeting places
//                                  ^ EarlierEnd: the turn is made to end here
//
// Where they are is known only after they were executed: so the thread goes back to its sync point
// and executes again up to the state chosen. Without chaos nothing is chosen, and signals are due
// at once.
//
// Borrows all it is made of. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_SYNC_CHAOS_POINTS_H_
#define HINDSIGHT_RECORDER_EMULATE_SYNC_CHAOS_POINTS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "emulator/cpu/cpu.h"
#include "recorder/emulate/pager/process_pager.h"
#include "recorder/emulate/sync/sync_point.h"
#include "recorder/emulate/thread/turn_clock.h"
#include "recorder/emulate/thread/turn_scheduler.h"

namespace hindsight {

class ChaosPoints {
 public:
  ChaosPoints(TurnScheduler* scheduler, TurnClock* clock, ProcessPager* pager,
              const SyncPoint* sync)
      : scheduler_(scheduler), clock_(clock), pager_(pager), sync_(sync) {}
  ChaosPoints(const ChaosPoints&) = delete;
  ChaosPoints& operator=(const ChaosPoints&) = delete;

  // Before the thread's first leg.
  void Start();
  // A leg begins.
  void BeginLeg();
  // After a leg of `thread` from state `first`: the earlier state in which the turn is to end, or
  // the delayed signal to be delivered; nullopt: it goes on. `alone`: no other thread can run.
  std::optional<uint64_t> EarlierEnd(pid_t thread, Cpu* cpu, uint64_t first, bool alone);
  // Whether the turn ends at a system call.
  bool EndsAtCall(pid_t thread, bool alone);

  // Whether a signal is to be delivered in state `count`: it may come later than it was noticed.
  // `pending`: there is one. `sync` advances the sync point to the present state: first writes are
  // noted from there on.
  bool SignalIsDue(bool pending, uint64_t count, absl::FunctionRef<void()> sync);

 private:
  std::vector<uint64_t> MeetingPlacesSince(uint64_t first, Cpu* cpu);

  TurnScheduler* const scheduler_;
  TurnClock* const clock_;
  ProcessPager* const pager_;
  const SyncPoint* const sync_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_SYNC_CHAOS_POINTS_H_
