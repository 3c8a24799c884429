// The last state in which the process's memory was that of the Cpu, and going back to it.
//
//   sync point              state reached                 Cpu's present state
//       |--- numbered, logged ---|--- executed, not logged yet ---|
//       |<---------------------------- GoBack --------------------|
//
// What was executed since the sync point is in the view only, and can be executed again: so an
// instruction that faulted is found, and a turn can end earlier than it did. Orderable instructions
// get their sequence numbers when their state is reached (Reach): executed again, they are not
// numbered again.
//
// Borrows the pager and the log; the Cpu from Start on. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_SYNC_SYNC_POINT_H_
#define HINDSIGHT_RECORDER_EMULATE_SYNC_SYNC_POINT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "isa/memory_model.h"
#include "isa/registers.h"
#include "recorder/emulate/pager/process_pager.h"
#include "recorder/log/thread_log.h"
#include "tracefmt/records.h"

namespace hindsight {

class SyncPoint {
 public:
  // `registers`: of the thread before it has a Cpu.
  SyncPoint(ProcessPager* pager, ThreadLog* log, const RegisterFile& registers)
      : pager_(pager), log_(log), registers_(registers) {}
  SyncPoint(const SyncPoint&) = delete;
  SyncPoint& operator=(const SyncPoint&) = delete;

  // The sync point is the present state of `cpu`.
  void Start(Cpu* cpu, MemoryModel model);
  // The same after a gap: the Cpu has been given another state than the one it had got to.
  void StartAgain();

  uint64_t count() const { return count_; }
  const RegisterFile& registers() const { return registers_; }

  // Brings the process's memory to the present state, which is the sync point from then on. False
  // if memory cannot be written. `others_store`: see ProcessPager::WriteBack.
  bool Advance(bool others_store);
  // What was executed before state `count` is logged; imports are of that state from now on.
  void Reach(uint64_t count);
  // Logs the transition (a SideEffect or Discontinuity without hash and registers) and makes it.
  // Requires: the present state is the sync point, and the process has made the transition or need
  // not.
  void Transition(RegisterFile after, RecordBody body);
  // Logs a hash of the present registers: the states up to here are part of the segment should
  // nothing follow.
  void LogHash();

  // Brings the Cpu to the sync point. False: the process is gone.
  bool GoBack();
  // Goes back, and from there to state `count`. False if that state was not met: the present state
  // is an exact one all the same, or the process is gone. An error: the emulator does not get there
  // a second time; the present state is the sync point.
  absl::StatusOr<bool> RunBackTo(uint64_t count);
  // The process is gone: brings the Cpu to the last state that is in the log.
  void GoToLastLogged();

  // States at or after `first`, not reached yet, from which orderable instructions were executed.
  absl::Span<const uint64_t> OrderableSince(uint64_t first) const;

 private:
  ProcessPager* const pager_;
  ThreadLog* const log_;
  Cpu* cpu_ = nullptr;
  uint64_t count_ = 0;
  RegisterFile registers_;
  std::vector<uint64_t> orderable_;  // as Cpu::LogOrderable appends them
  uint64_t reached_ = 0;             // those of states before are in the log
  // The last state whose hash was logged outside of a transition.
  uint64_t hashed_count_ = 0;
  RegisterFile hashed_registers_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_SYNC_SYNC_POINT_H_
