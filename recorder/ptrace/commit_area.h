// Memory in a process that was attached to, by which it survives the death of its recorder at any
// instant.
//
// While a thread is emulated it is stopped in the kernel, at an earlier state. Bringing the
// process to a later state (a commit) changes memory and registers; a recorder that dies between
// the two would leave the thread to go on with old registers on newer memory. So a commit is
// prepared in this area first: the bytes to be written (the journal) and the registers, as a signal
// frame. Then one word, `state`, is set, then the memory is written, then `state` is cleared. All
// of it is one process_vm_writev, which works in order. During a commit the thread is parked: its
// real registers point to code in the area, which is not executed while the recorder lives. When
// the recorder dies, the kernel lets the thread run, and that code
//
//   state is the thread's own:  copies the journal to where it belongs, takes the new frame
//   state is another thread's:  waits until that one has done so
//   state is 0:                 takes the frame it has
//
// restarts the call that had been interrupted, if there was one that knows what is left of it, and
// returns to the frame by rt_sigreturn. Copying twice does no harm. All signals are blocked
// while a thread is parked; the frame has the mask to go on with.
//
//   page 0   code, read and execute
//   page 1   state, address and number of journal entries
//   then     slots, one for each thread: address of the frame, of the new frame, two frames
//   then     the journal: entries (destination, source, length), and the bytes
//
// Children made by fork do not inherit the area. Not copyable. One host thread, the tracer.

#ifndef HINDSIGHT_RECORDER_PTRACE_COMMIT_AREA_H_
#define HINDSIGHT_RECORDER_PTRACE_COMMIT_AREA_H_

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "recorder/process/process_memory.h"

namespace hindsight {

// All that a stopped thread goes on with.
struct ThreadContext {
  user_regs_struct general = {};
  absl::Span<const uint8_t> vectors;  // NT_X86_XSTATE; borrowed
  uint64_t signal_mask = 0;
  // It is at a system call that goes on with what is left of one that was interrupted
  // (restart_syscall). A frame alone would not do: rt_sigreturn makes such a call say EINTR.
  bool restarts_call = false;
};

class CommitArea {
 public:
  // Maps the area in the process of `thread`; all others must be stopped. `call`: where the process
  // has a system call followed by rt_sigreturn (FindVdsoCall). Requires: traced with
  // PTRACE_O_TRACESYSGOOD, stopped, with no signal about to be delivered. kUnavailable: the thread
  // is gone, is confined by seccomp, or there is no room.
  static absl::StatusOr<std::unique_ptr<CommitArea>> Install(pid_t thread, uint64_t call);
  CommitArea(const CommitArea&) = delete;
  CommitArea& operator=(const CommitArea&) = delete;

  // Unmaps it. Requires: as Install; no thread is parked.
  void Remove(pid_t thread);

  // Slots of threads. nullopt: there is none left.
  std::optional<int> TakeSlot();
  void GiveBack(int slot) { free_.push_back(slot); }

  // What to write, in order, so that a thread in `slot` may be parked: it would go on with `now`.
  std::vector<MemoryPiece> PlanPark(int slot, const ThreadContext& now);
  // The registers of a parked thread, made from those it has.
  user_regs_struct Parked(int slot, const user_regs_struct& registers) const;
  // The same of one that uses up processor time, and would go on after some seconds.
  user_regs_struct Spinning(int slot, const user_regs_struct& registers) const;
  // What to write, in order, so that memory gets `pieces` and the parked thread would go on with
  // `after`. The pieces borrow from this object until the next call. Empty if there are too many.
  std::vector<MemoryPiece> PlanCommit(int slot, const ThreadContext& after,
                                      absl::Span<const MemoryPiece> pieces);

  uint64_t address() const { return address_; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  CommitArea(uint64_t address, uint64_t size_bytes, uint64_t call);
  uint64_t SlotAddress(int slot) const;
  uint64_t FrameAddress(int slot, int version) const;
  MemoryPiece Word(uint64_t address, uint64_t value);

  const uint64_t address_, size_bytes_, call_, frame_bytes_, slot_bytes_, journal_;
  int slots_ = 0;          // taken so far
  std::vector<int> free_;  // of those, given back
  std::vector<int> version_;
  std::vector<uint8_t> frame_;    // being written
  std::vector<uint8_t> entries_;  // likewise, with the journal's bytes
  std::vector<std::unique_ptr<uint64_t>> words_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_COMMIT_AREA_H_
