// A system call that a recorded thread is making in its process, from the instruction to the
// result.
//
//             OnSyscallStop            OnSyscallStop
//   about to ---------------> inside -----------------> returned
//   enter the                                               | the kernel wants to restart it
//   kernel      <---------- interrupted <-------------------+ (MarkInterrupted)
//
// An interrupted call is either made again, or a signal's handler is entered first: then its result
// is in the handler's frame. Signals that come meanwhile and have no handler are logged after it.
//
// Movable, not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_CALL_IN_FLIGHT_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_CALL_IN_FLIGHT_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "isa/registers.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/syscalls/argument_memory.h"
#include "recorder/syscalls/syscall_outputs.h"
#include "tracefmt/records.h"

namespace hindsight {

class CallInFlight {
 public:
  // A process that the call has made.
  struct Fork {
    ForkKind kind = ForkKind::kFork;
    pid_t process = 0;
    bool recorded = false;
  };

  // The call that a thread with these registers is about to make.
  explicit CallInFlight(const RegisterFile& at);
  CallInFlight(CallInFlight&&) = default;
  CallInFlight& operator=(CallInFlight&&) = default;

  // Inside execve, which has succeeded: `by_other` is the call of the thread of the same process
  // that made it, and whose place is taken; nullopt if that thread is not recorded.
  static CallInFlight OfExec(std::optional<CallInFlight> by_other);

  int64_t number() const { return number_; }
  const uint64_t* arguments() const { return arguments_.data(); }  // six
  bool inside() const { return inside_; }
  bool interrupted() const { return interrupted_; }
  bool is_exec() const { return is_exec_; }  // a new image runs already

  // The thread has stopped at the entry to the kernel or at the exit from it: true at the exit. At
  // the entry the memory that the arguments point to is read.
  bool OnSyscallStop(const ReadMemory& read);
  void MarkInterrupted() { interrupted_ = true; }
  void MarkExec() { is_exec_ = true; }
  // Whether `result` says that the kernel is going to restart it, rather than what it returned.
  bool IsInterruptedBy(int64_t result) const;
  // Whether it changes more registers than those of results.
  bool ChangesAllRegisters() const;

  // Signals without a handler that came while the call was interrupted.
  void HoldSignal(TraceeStop signal) { held_signals_.push_back(std::move(signal)); }
  std::vector<TraceeStop> TakeHeldSignals() { return std::exchange(held_signals_, {}); }

  // A process that `stop` reports. `recorded`: it is recorded, too.
  void AddFork(const TraceeStop& stop, pid_t process, bool recorded);
  const std::vector<Fork>& forks() const { return forks_; }
  // Whether it has made a process by vfork, which it may be waiting for.
  bool HasVforked() const;

  // Whether others may see what it does before it returns. Not of one that makes a process or
  // executes a program: what it waits for may be what others do.
  bool Acts(const ReadMemory& read) const;

  // Of clone and clone3; 0 for others.
  uint64_t CloneFlags() const;
  // Where clone or clone3 stores the id of the new thread, if its flags ask for it.
  uint64_t ChildTidAddress() const;
  // The memory of the other process that process_vm_writev writes to.
  std::vector<MemoryRange> RemoteWrites() const;
  // What it has stored. `read` reads the memory as it is after it.
  SyscallOutputs Outputs(int64_t result, const ReadMemory& read) const;

 private:
  CallInFlight() = default;

  int64_t number_ = 0;
  std::array<uint64_t, 6> arguments_ = {};
  ArgumentMemory memory_;  // taken at the entry
  bool inside_ = false;
  bool interrupted_ = false;
  bool is_exec_ = false;
  std::vector<Fork> forks_;
  std::vector<TraceeStop> held_signals_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_CALL_IN_FLIGHT_H_
