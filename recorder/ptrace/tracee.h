// One ptraced thread: its registers, its process's memory, and running it from stop to stop.
//
// A launched one owns its process: the destructor kills and reaps it unless it has exited or was
// detached. Not copyable, not movable. Only the host thread that traces it may call it (a rule of
// ptrace).
//
// The thread may vanish at any moment (SIGKILL, exit_group by another). Calls on a vanished thread
// return false; the next Wait() says how it ended.
//
// It has more fields than most classes: what is known of the registers, and what of that is in
// effect while the thread is parked in the commit area, changes together in each call.

#ifndef HINDSIGHT_RECORDER_PTRACE_TRACEE_H_
#define HINDSIGHT_RECORDER_PTRACE_TRACEE_H_

#include <signal.h>
#include <sys/types.h>
#include <sys/user.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "isa/registers.h"
#include "recorder/process/process_memory.h"
#include "recorder/process/program_lookup.h"
#include "recorder/ptrace/commit_area.h"
#include "recorder/ptrace/launch.h"
#include "recorder/ptrace/tracee_signals.h"
#include "recorder/ptrace/wait_status.h"

namespace hindsight {

enum class ResumeHow : uint8_t {
  kStep,  // one instruction; the kernel reports its end by a SIGTRAP
  // To the next entry to or exit from a system call. No signal is involved, and though these are
  // two stops for a call they cost less than one step: in a virtual machine the debug registers
  // that the trap involves are the hypervisor's.
  kSyscall,
};

enum class TraceeStopKind : uint8_t {
  kStepped,    // the instruction is done, or a signal's handler is entered (handler_entry)
  kSyscall,    // entering or leaving a system call
  kSignal,     // `signal` is about to be delivered: pass it to Resume, or it is lost
  kGroupStop,  // stopped by job control; Listen(), then Wait()
  kContinued,  // a group stop is over; Resume() what was being done
  kExec,       // a new image has replaced the old one; the system call has not returned yet
  kNewTask,    // inside a system call that has made `task`, which is traced as well
  kExited,     // gone; wait_status says how
};

// The ptrace options recorded threads are traced with.
uintptr_t TraceOptions();

struct TraceeStop {
  TraceeStopKind kind = TraceeStopKind::kExited;
  int signal = 0;              // kSignal, kGroupStop
  bool handler_entry = false;  // kStepped: the kernel has just built a signal frame
  std::string siginfo;         // kSignal: the kernel's bytes
  int wait_status = 0;         // kExited
  // kNewTask: the new one; kExec: what the thread's id was before (it is the process's now).
  pid_t task = 0;
  bool vfork = false, thread = false;  // kNewTask: by which event it was reported
};

class Tracee {
 public:
  // See LaunchTraced.
  static absl::StatusOr<std::unique_ptr<Tracee>> Launch(
      const ExecCommand& command, AddressLayout layout = AddressLayout::kUsual);
  ~Tracee();
  Tracee(const Tracee&) = delete;
  Tracee& operator=(const Tracee&) = delete;

  // A traced thread that exists already: attached to, or made by a traced one. Not owned.
  static std::unique_ptr<Tracee> Adopt(pid_t process, pid_t thread);

  // It is reaped elsewhere from now on.
  void Disown() { owned_ = false; }
  pid_t process() const { return process_; }
  pid_t thread() const { return thread_; }
  // Through the thread: that of the process shows nothing once its first thread has ended.
  std::string ProcPath(const char* name) const;  // "/proc/THREAD/name"

  // The process's memory, with the rights that the process has.
  const ProcessMemory& memory() const { return memory_; }
  ProcessMemory& memory() { return memory_; }
  TraceeSignals& signals() { return signals_; }
  // Brings memory to `pieces` and the thread to `registers`, which SetRegisters or Resume puts into
  // effect. With a commit area both happen or neither, should this process die. Requires: stopped.
  bool Commit(absl::Span<const MemoryPiece> pieces, const RegisterFile& registers);
  // Makes the thread wait for commits of others, should this process die. Does nothing without a
  // commit area. Requires: stopped, between two instructions.
  bool Park();
  // The same of one that runs or sleeps, for all that is known, if its system call has ended.
  void ParkIfCallEnded();
  // Undoes either, with the registers that the thread had.
  void Unpark();
  // Borrowed; null: none any more. Requires: not between Commit and SetRegisters.
  void UseCommitArea(CommitArea* area);

  // False once it is gone, though not yet waited for.
  bool IsStopped() const;

  // Registers, as far as the register file has them; the rest of the vector state stays as it is.
  // What is known to be the same already is not transferred. GetRegisters also transfers the
  // floating-point state if `vectors`; otherwise it is taken to be what it was.
  bool GetRegisters(bool vectors, RegisterFile* out);
  bool SetRegisters(const RegisterFile& registers);

  // Running. Requires: stopped. `signal` is delivered first if not 0.
  bool Resume(ResumeHow how, int signal = 0);
  bool Listen();
  // Waits for the next stop; calls `on_tick` whenever a signal of this process's own interrupts it.
  TraceeStop Wait(const std::function<void()>& on_tick);
  // The stop that has come already, if any.
  std::optional<TraceeStop> Poll();
  // A stop of this thread that was waited for elsewhere, as waitpid reported it.
  TraceeStop Interpret(int raw);
  // Brings a stopped thread to another stop, without executing anything: shows whether a group stop
  // is in effect, and takes part in it. nullopt: none is, and nothing else has come either.
  std::optional<TraceeStop> StopAnew();
  // Waits for the stop of a running thread, brought about if need be.
  bool Interrupt();
  // Has the thread execute the instruction at `loop`, which jumps to itself, for about so long:
  // time that the kernel counts as used by it. Nothing is delivered meanwhile. May write to the
  // thread's restartable-sequence area. How long it was: 0 if the thread vanishes.
  uint64_t UseTime(uint64_t loop, uint64_t ns);
  // After an exec by another thread of the process, which has taken this one's place.
  void ForgetRegisters();

 private:
  Tracee(pid_t process, pid_t thread, bool owned);
  bool LoadVectors();
  // With the general registers that it has.
  ThreadContext ContextOf(absl::Span<const uint8_t> vectors, uint64_t mask);
  void LeaveTrap();
  TraceeStop WithoutStep(TraceeStop stop);
  bool Unpark(const user_regs_struct& general);
  TraceeStop InterpretEvent(const WaitStatus& status);

  const pid_t process_, thread_;
  ProcessVmMemory memory_;
  TraceeSignals signals_;
  bool owned_;
  bool exited_ = false;
  // What the thread's registers are known to be.
  bool general_known_ = false, vectors_known_ = false;
  user_regs_struct general_ = {};
  std::vector<uint8_t> vectors_;  // NT_X86_XSTATE
  RegisterFile known_;
  // Its place in the commit area, and whether its real registers point there: then general_ is what
  // it would go on with, and `committed_` what SetRegisters has to bring about.
  CommitArea* area_ = nullptr;
  std::optional<int> slot_;
  bool parked_ = false;
  // A stop that came early: Resume does nothing, and Wait reports it.
  std::optional<int> held_status_;
  RegisterFile committed_;
  ResumeHow how_ = ResumeHow::kSyscall;  // the last one
};

// In the flags that a step of pushf has left at `address`.
void ClearTrapFlagAt(uint64_t address, Tracee* tracee);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_TRACEE_H_
