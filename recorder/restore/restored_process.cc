#include "recorder/restore/restored_process.h"

#include <errno.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/watch/signal_stop.h"
#include "recorder/ptrace/whole/stub_process.h"
#include "recorder/restore/remote.h"
#include "recorder/restore/restored_descriptors.h"
#include "recorder/restore/restored_facts.h"
#include "recorder/restore/restored_memory.h"
#include "recorder/restore/restored_signals.h"

namespace hindsight {
namespace {

absl::Status Gone() { return absl::UnavailableError("the new process is gone"); }

}  // namespace

absl::StatusOr<std::unique_ptr<RestoredProcess>> RestoredProcess::Make(
    const TraceReader& trace, const FullKeyframe& keyframe, const ControlFile& control_file) {
  const Manifest& manifest = trace.manifest();
  StubRequest request = {
      .executable = manifest.program, .arguments = manifest.arguments, .pid = manifest.pid};
  if (const KernelState* const kernel = keyframe.kernel_state(); kernel != nullptr) {
    if (!kernel->executable.empty()) request.executable = kernel->executable;
    request.personality = kernel->personality;
  }
  ASSIGN_OR_RETURN(const pid_t pid, StartStub(request));
  auto process = absl::WrapUnique(new RestoredProcess(pid));
  RETURN_IF_ERROR(process->Build(trace, keyframe, control_file));
  return process;
}

absl::Status RestoredProcess::Build(const TraceReader& trace, const FullKeyframe& keyframe,
                                    const ControlFile& control_file) {
  ASSIGN_OR_RETURN(const uint64_t bootstrap, PlaceForBootstrap(keyframe, pid_));
  ASSIGN_OR_RETURN(const std::unique_ptr<Remote> remote, Remote::Make(pid_, bootstrap));
  RETURN_IF_ERROR(RestoreMemory(trace, keyframe, control_file, remote.get(), &notes_));
  const KernelState* const kernel = keyframe.kernel_state();
  if (kernel == nullptr) {
    notes_.lost.push_back(
        "the snapshot says nothing of descriptors, signals and system calls under way");
  } else {
    RETURN_IF_ERROR(RestoreFacts(*kernel, keyframe.auxv(), remote.get(), &notes_));
    RETURN_IF_ERROR(RestoreDescriptors(*kernel, remote.get(), &notes_));
  }
  RETURN_IF_ERROR(MakeThreads(keyframe, trace.manifest().pid, remote.get(), &threads_, &notes_));
  RETURN_IF_ERROR(RestoreThreadStates(threads_, remote.get(), &notes_));
  if (kernel != nullptr) {
    // They wait at the threads' masks.
    for (const RestoredThread& thread : threads_) {
      SetThreadMask(thread.thread, thread.kernel.blocked);
    }
    FindSignal(trace, keyframe.number(), *kernel, &threads_);
    RETURN_IF_ERROR(RestoreSignals(*kernel, threads_, remote.get(), &notes_));
  }
  RETURN_IF_ERROR(remote->Remove());
  return RestoreRegisters(threads_);
}

RestoredProcess::~RestoredProcess() {
  siginfo_t end = {};
  const int wait = waitid(P_PID, static_cast<id_t>(pid_), &end, WEXITED | WNOHANG | WNOWAIT);
  if (wait != 0 && errno == ECHILD) return;
  KillAndReap(pid_, threads());
}

bool RestoredProcess::WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes) {
  return ProcMemFile(pid_).Write(address, bytes);
}

absl::Status RestoredProcess::SetRegisters(int32_t thread, const RegisterFile& registers) {
  const auto found = std::find_if(threads_.begin(), threads_.end(), [&](const auto& candidate) {
    return candidate.state.thread == thread;
  });
  if (found == threads_.end()) return absl::NotFoundError(absl::StrCat("no thread ", thread));
  return hindsight::SetRegisters(*found, registers) ? absl::OkStatus() : Gone();
}

RestoredThread* RestoredProcess::Signaled() {
  const auto found = std::find_if(threads_.begin(), threads_.end(),
                                  [](const auto& thread) { return thread.signal.has_value(); });
  return found == threads_.end() ? nullptr : &*found;
}

pid_t RestoredProcess::signaled_thread() const {
  const RestoredThread* const thread = const_cast<RestoredProcess*>(this)->Signaled();
  return thread == nullptr ? 0 : thread->thread;
}

absl::Status RestoredProcess::ForgetFault() {
  RestoredThread* const thread = Signaled();
  if (thread == nullptr || !IsFault(*thread->signal)) return absl::OkStatus();
  RETURN_IF_ERROR(AwaitSignal());
  thread->signal.reset();
  thread->signal_is_handled = false;
  return DropSignal(thread->thread) ? absl::OkStatus() : Gone();
}

absl::Status RestoredProcess::AwaitSignal() {
  const RestoredThread* const thread = Signaled();
  if (thread == nullptr) return absl::OkStatus();
  const bool came = BringToSignal(thread->thread, thread->signal->si_signo, thread->kernel.blocked);
  return came ? absl::OkStatus() : Gone();
}

std::vector<pid_t> RestoredProcess::threads() const {
  std::vector<pid_t> threads;
  for (const RestoredThread& thread : threads_) threads.push_back(thread.thread);
  return threads;
}

void RestoredProcess::Release() {
  std::vector<ThreadToDetach> detach;
  for (const RestoredThread& thread : threads_) {
    const int signal = thread.signal.has_value() ? thread.signal->si_signo : 0;
    detach.push_back({.thread = thread.thread, .signal = signal});
  }
  DetachFromProcess(pid_, detach, {}).IgnoreError();
}

}  // namespace hindsight
