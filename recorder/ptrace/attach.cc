#include "recorder/ptrace/attach.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"
#include "recorder/process/scheduling.h"
#include "recorder/process/signal_sets.h"
#include "recorder/ptrace/attach_errors.h"
#include "recorder/ptrace/remote_call.h"
#include "recorder/ptrace/thread_facts.h"
#include "recorder/ptrace/wait_status.h"
#include "recorder/syscalls/syscall_traits.h"

namespace hindsight {
namespace {

using StopKind = SeizedStop::Kind;

constexpr std::chrono::milliseconds kStopTimeout(5000);
// A thread about to take a signal takes it at once.
constexpr std::chrono::milliseconds kSignalTimeout(20);
// Signals taken before recording begins; more are for the recording.
constexpr int kMaxSignals = 64;
// The longest way through the vdso, and much more.
constexpr int kMaxVdsoSteps = 100'000;

constexpr size_t kSignalSetBytes = 8;  // the kernel's sigset_t
constexpr uint64_t kSyscallBytes = 2;  // of the instruction

bool GetRegisters(pid_t thread, user_regs_struct* registers) {
  return ptrace(PTRACE_GETREGS, thread, nullptr, registers) == 0;
}

bool IsInterrupted(const user_regs_struct& registers) {
  const auto result = static_cast<int64_t>(registers.rax);
  return static_cast<int64_t>(registers.orig_rax) >= 0 &&
         (IsRestartCode(result) || result == -EINTR);
}

// A process being attached to. Detaches what it has seized unless Keep was called.
class Attachment {
 public:
  explicit Attachment(pid_t pid) : pid_(pid) {}
  ~Attachment() {
    for (const StoppedThread& thread : threads_) Detach(thread.thread);
  }

  absl::Status StopAll();
  void TakeOver(absl::Span<const pid_t> threads) {
    for (const pid_t thread : threads) threads_.push_back({.thread = thread});
  }
  absl::Status Settle() { return SettleThreads(pid_, absl::MakeSpan(threads_)); }
  absl::StatusOr<std::vector<StoppedThread>> Keep(uintptr_t options);

 private:
  absl::Status Stop(pid_t thread);

  const pid_t pid_;
  std::vector<StoppedThread> threads_;
};

// Once all known threads are stopped and there is no other, none can be made.
absl::Status Attachment::StopAll() {
  std::set<pid_t> known;
  while (true) {
    bool found = false;
    for (const pid_t thread : ThreadsOf(pid_)) {
      if (!known.insert(thread).second) continue;
      found = true;
      RETURN_IF_ERROR(Stop(thread));
    }
    if (!found) break;
  }
  if (threads_.empty()) return NoSuchProcess(pid_);
  if (!Is64Bit(threads_[0].thread)) {
    return HasEnded(pid_, threads_[0].thread) ? NoSuchProcess(pid_) : NotForThisProcessor(pid_);
  }
  std::stable_sort(threads_.begin(), threads_.end(), [&](const auto& a, const auto& b) {
    return (a.thread == pid_) > (b.thread == pid_);
  });
  return absl::OkStatus();
}

absl::Status Attachment::Stop(pid_t thread) {
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
    // It may have ended: then it is a zombie still, or gone.
    if (errno == ESRCH || HasEnded(pid_, thread)) return absl::OkStatus();
    return WhyNotSeized(pid_, thread, errno);
  }
  // A thread that job control has stopped is in its ptrace stop by now.
  SeizedStop stop = WaitForSeizedStop(thread, std::chrono::milliseconds(0));
  if (stop.kind == StopKind::kTimedOut) {
    ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
    stop = WaitForSeizedStop(thread, kStopTimeout);
  }
  switch (stop.kind) {
    case StopKind::kStopped:
      threads_.push_back({thread, stop.group_stop});
      break;
    case StopKind::kTimedOut:
      return DoesNotStop(pid_, thread);
    default:
      break;
  }
  return absl::OkStatus();
}

// A signal with a handler that has interrupted a call is what ends the call: it must be seen to
// now, since the call is not in the registers any more afterwards.
bool TakeSignals(pid_t pid, StoppedThread* thread) {
  for (int i = 0; i < kMaxSignals && thread->group_stop == 0; ++i) {
    user_regs_struct registers;
    if (!GetRegisters(thread->thread, &registers)) return false;
    if (!IsInterrupted(registers)) return true;
    if (SignalSetsOf(pid, thread->thread).about_to_be_handled() == 0) return true;
    ptrace(PTRACE_CONT, thread->thread, nullptr, 0);
    SeizedStop stop = WaitForSeizedStop(thread->thread, kSignalTimeout);
    if (stop.kind == StopKind::kTimedOut) {  // another thread took the signal
      ptrace(PTRACE_INTERRUPT, thread->thread, nullptr, nullptr);
      stop = WaitForSeizedStop(thread->thread, kStopTimeout);
    }
    if (stop.kind != StopKind::kStopped) return false;
    thread->group_stop = stop.group_stop;
  }
  return true;
}

bool LeaveCall(const StoppedThread& thread) {
  user_regs_struct registers;
  if (!GetRegisters(thread.thread, &registers)) return false;
  if (!IsInterrupted(registers)) return true;
  // Calls like sigsuspend have put another signal mask in place. With the thread before its call,
  // it must be the thread's own again, so that no signal that the call waits for comes before it.
  uint64_t mask;
  if (ptrace(PTRACE_GETSIGMASK, thread.thread, kSignalSetBytes, &mask) == 0) {
    ptrace(PTRACE_SETSIGMASK, thread.thread, kSignalSetBytes, &mask);
  }
  registers = RegistersToResumeFrom(registers, /*call_may_fail=*/true);
  return ptrace(PTRACE_SETREGS, thread.thread, nullptr, &registers) == 0;
}

absl::StatusOr<std::vector<StoppedThread>> Attachment::Keep(uintptr_t options) {
  for (const StoppedThread& thread : threads_) {
    if (ptrace(PTRACE_SETOPTIONS, thread.thread, nullptr, options) != 0 &&
        !HasEnded(pid_, thread.thread)) {
      return absl::InternalError(absl::StrCat("PTRACE_SETOPTIONS: ", strerror(errno)));
    }
  }
  return std::exchange(threads_, {});
}

// Brings a running thread to a stop.
bool StopRunning(pid_t thread) {
  if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return false;
  while (true) {
    const SeizedStop stop = WaitForSeizedStop(thread, kStopTimeout);
    if (stop.kind == StopKind::kStopped) return true;
    if (stop.kind != StopKind::kEvent) return false;
    PassEvent(thread, stop);
  }
}

// Whether a handler is what the thread runs first. `signal`: that it is about to get; 0: none.
bool WillHandle(const SignalSets& sets, int signal) {
  const uint64_t about_to_come = signal == 0 ? 0 : uint64_t{1} << (signal - 1);
  return sets.about_to_be_handled() != 0 || (sets.caught & about_to_come) != 0;
}

// Sets the registers of a stopped thread so that it notices nothing when it goes on natively.
void PrepareToDetach(pid_t pid, const ThreadToDetach& detach, absl::Span<const VdsoPatch> patches) {
  const pid_t thread = detach.thread;
  user_regs_struct registers;
  if (!GetRegisters(thread, &registers)) return;
  bool changed = false;
  const bool eintr = IsInterrupted(registers) && static_cast<int64_t>(registers.rax) == -EINTR;
  if (eintr && !WillHandle(SignalSetsOf(pid, thread), detach.signal)) {
    registers = RegistersToResumeFrom(registers, /*call_may_fail=*/true);
    changed = true;
  }
  errno = 0;
  const long word = ptrace(PTRACE_PEEKDATA, thread, registers.rsp, nullptr);
  uint64_t rip = registers.rip, rsp = registers.rsp;
  if (errno == 0 && LeaveVdsoPatch(patches, static_cast<uint64_t>(word), &rip, &rsp)) {
    registers.rip = rip;
    registers.rsp = rsp;
    changed = true;
  }
  if (changed) ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
}

}  // namespace

bool LeaveCallEntry(pid_t thread) {
  user_regs_struct registers;
  if (!GetRegisters(thread, &registers)) return false;
  if (!IsAtCallEntry(thread)) return true;
  if (StatusNumber(thread, "Seccomp:") != 0) return false;
  registers.rip -= kSyscallBytes;
  registers.rax = registers.orig_rax;
  registers.orig_rax = ~uint64_t{0};  // no call: the kernel leaves the registers as they are
  return ptrace(PTRACE_SETREGS, thread, nullptr, &registers) == 0 && ContinueToStop(thread, 0) &&
         WaitForSeizedStop(thread, kStopTimeout).kind == StopKind::kStopped;
}

user_regs_struct RegistersToResumeFrom(const user_regs_struct& stopped, bool call_may_fail) {
  user_regs_struct registers = stopped;
  if (!IsInterrupted(stopped)) return registers;
  const auto result = static_cast<int64_t>(stopped.rax);
  const auto number = static_cast<int64_t>(stopped.orig_rax);
  if (result == -EINTR && !(call_may_fail && SaysEintrWithoutReason(number))) return registers;
  registers.rip -= kSyscallBytes;
  registers.rax = NeedsRestartSyscall(result) ? SYS_restart_syscall : stopped.orig_rax;
  registers.orig_rax = ~uint64_t{0};
  return registers;
}

absl::Status SettleThreads(pid_t pid, absl::Span<StoppedThread> threads) {
  if (threads.empty()) return absl::OkStatus();
  // The process itself shows nothing if its first thread has ended.
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", threads[0].thread, "/maps"));
  const MapRegion* vdso = map.FindNamed("[vdso]");
  for (StoppedThread& thread : threads) {
    bool alive = TakeSignals(pid, &thread) && LeaveCall(thread);
    if (alive && vdso != nullptr) {
      alive = StepWhile(thread.thread, kMaxVdsoSteps,
                        [&](uint64_t pc) { return pc >= vdso->start && pc < vdso->end; });
    }
    if (!alive && HasEnded(pid, pid)) return NoSuchProcess(pid);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StoppedThread>> AttachToProcess(pid_t pid, uintptr_t options) {
  RETURN_IF_ERROR(CheckAttachable(pid));
  Attachment attachment(pid);
  RETURN_IF_ERROR(attachment.StopAll());
  RETURN_IF_ERROR(attachment.Settle());
  return attachment.Keep(options);
}

absl::StatusOr<std::vector<StoppedThread>> TakeOverTraced(pid_t pid,
                                                          absl::Span<const pid_t> threads,
                                                          uintptr_t options) {
  Attachment attachment(pid);
  attachment.TakeOver(threads);
  RETURN_IF_ERROR(attachment.Settle());
  return attachment.Keep(options);
}

void PassEvent(pid_t thread, const SeizedStop& event) {
  const bool made_one = event.event == PTRACE_EVENT_CLONE || event.event == PTRACE_EVENT_FORK ||
                        event.event == PTRACE_EVENT_VFORK;
  if (const pid_t child = made_one ? TaskOfEvent(thread) : 0; child != 0) {
    WaitForSeizedStop(child, kStopTimeout);
    Detach(child);
  }
  ContinueToStop(thread, 0);
}

void LetChildGo(pid_t child, pid_t parent, bool launched) {
  if (!SharesMemory(child, parent, /*otherwise=*/true)) {
    const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", child, "/maps"));
    ProcMemFile memory(child);
    // Finds the patches that it has inherited.
    const auto patches = PatchVdso(map, &memory);
    if (patches.ok()) RestoreVdso(*patches, &memory).IgnoreError();
  }
  if (launched) RandomizeAddressesAgain(child).IgnoreError();
  Detach(child);
}

void StopToDetach(absl::Span<ThreadToDetach> threads) {
  for (ThreadToDetach& thread : threads) {
    if (thread.stays) continue;
    if (thread.running) thread.running = !StopRunning(thread.thread);
    if (!thread.running && thread.signal == 0) LeaveCallEntry(thread.thread);
  }
}

bool MayCall(const ThreadToDetach& thread) {
  user_regs_struct registers;
  return !thread.stays && !thread.running && thread.signal == 0 &&
         GetRegisters(thread.thread, &registers) && !IsAtCallEntry(thread.thread);
}

absl::Status DetachFromProcess(pid_t pid, absl::Span<const ThreadToDetach> threads,
                               absl::Span<const VdsoPatch> patches) {
  absl::Status status;
  for (const ThreadToDetach& thread : threads) {
    if (!thread.stays) PrepareToDetach(pid, thread, patches);
  }
  for (const ThreadToDetach& thread : threads) {
    if (HasEnded(pid, thread.thread)) continue;  // shows no memory
    ProcMemFile memory(thread.thread);
    status.Update(RestoreVdso(patches, &memory));
    break;
  }
  for (const ThreadToDetach& thread : threads) {
    if (!thread.stays) Detach(thread.thread, thread.signal);
  }
  return status;
}

}  // namespace hindsight
