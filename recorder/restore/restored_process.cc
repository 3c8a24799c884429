#include "recorder/restore/restored_process.h"

#include <errno.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/whole/stub_process.h"
#include "recorder/restore/remote.h"
#include "recorder/restore/restored_descriptors.h"
#include "recorder/restore/restored_facts.h"
#include "recorder/restore/restored_memory.h"
#include "recorder/restore/restored_signals.h"

namespace hindsight {

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
  // A thread that is sent elsewhere is not in its system call any more.
  RegisterFile before;
  const bool stays = FromWords(found->state.registers, &before) && before.rip == registers.rip &&
                     before.gpr[kRax] == registers.gpr[kRax];
  const int64_t system_call = stays ? found->kernel.system_call : -1;
  if (SetThreadRegisters(found->thread, registers, system_call)) return absl::OkStatus();
  return absl::UnavailableError("the new process is gone");
}

std::vector<pid_t> RestoredProcess::threads() const {
  std::vector<pid_t> threads;
  for (const RestoredThread& thread : threads_) threads.push_back(thread.thread);
  return threads;
}

void RestoredProcess::Release() {
  std::vector<ThreadToDetach> detach;
  for (const RestoredThread& thread : threads_) detach.push_back({.thread = thread.thread});
  DetachFromProcess(pid_, detach, {}).IgnoreError();
}

}  // namespace hindsight
