// The recorded process as a debugger has changed it: a throw-away copy that takes writes and runs
// functions, over the process as recorded.
//
//          Begin            Suspend
//   none ---------> active <---------> set aside          End, from anywhere: none
//                            Resume
//
// While active, memory is the copy's, and so are the registers of the threads that have run in it;
// one thread runs at a time. Set aside, it is the recording's again, but where that does not know
// memory, or the program has not begun to use it, the copy's shows. All that belongs to one
// position: End it before the recorded process moves.
//
// Borrows `recorded`, which must outlive it. Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_DIVERTED_PROCESS_H_
#define HINDSIGHT_SERVER_TARGET_DIVERTED_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "isa/registers.h"
#include "keyframes/inspect/process_view.h"
#include "server/target/scratch_process.h"
#include "server/target/target.h"

namespace hindsight {

class DivertedProcess {
 public:
  explicit DivertedProcess(ProcessView* recorded) : recorded_(recorded) {}
  DivertedProcess(const DivertedProcess&) = delete;
  DivertedProcess& operator=(const DivertedProcess&) = delete;

  bool active() const { return active_ != nullptr; }
  // There is a copy, active or set aside.
  bool exists() const { return active_ != nullptr || suspended_ != nullptr; }
  // The thread that runs in it. Requires: active().
  int32_t thread() const { return thread_; }

  // Whether `thread` has registers of its own in the active copy, and those. Registers() requires
  // it, as SyscallNumber() does, which is orig_rax.
  bool HasRegistersOf(int32_t thread) const {
    return active() && (thread == thread_ || others_.contains(thread));
  }
  const RegisterFile& Registers(int32_t thread) const;
  int64_t SyscallNumber(int32_t thread) const { return thread == thread_ ? syscall_number_ : -1; }

  // Requires: exists(). As ProcessView::ReadMemory.
  absl::StatusOr<size_t> ReadMemory(int32_t thread, uint64_t address, absl::Span<uint8_t> out);

  // Begins a copy in which `thread` runs, with its recorded registers; in an active one, makes it
  // the thread that runs.
  absl::Status Begin(int32_t thread);
  void Suspend();
  // False: none is set aside, or its thread's registers cannot be had. The thread has its recorded
  // registers again: a finished call has restored them, an abandoned one has not.
  bool Resume();
  void End();
  // Ends the active copy, not one set aside: a write that failed has not begun a diversion.
  void Abandon() { active_ = nullptr; }

  // Begins a copy, or makes `thread` the one that runs in it, unless the register has that value
  // already. `number` as in target_description.h. kInvalidArgument: no such register, or not of
  // this size.
  absl::Status WriteRegister(int32_t thread, int number, absl::Span<const uint8_t> bytes);
  // Requires: active(). Of the thread that runs.
  void SetRegisters(const RegisterFile& registers, int64_t syscall_number);
  absl::Status WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes) {
    return active_->WriteMemory(address, bytes);
  }
  // Runs forward. What the program prints is appended to `console`.
  RunStop Run(const RunRequest& request, std::string* console);

 private:
  absl::Status SwitchTo(int32_t thread);
  ThreadRef Ref(int32_t thread) const { return {recorded_->pid(), thread}; }

  ProcessView* recorded_;
  std::unique_ptr<ScratchProcess> active_;
  std::unique_ptr<ScratchProcess> suspended_;
  int32_t thread_ = 0;
  int64_t syscall_number_ = -1;
  // The threads that ran in the active copy before thread_.
  absl::flat_hash_map<int32_t, RegisterFile> others_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_DIVERTED_PROCESS_H_
