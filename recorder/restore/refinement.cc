#include "recorder/restore/refinement.h"

#include <signal.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "recorder/restore/restored_process.h"

namespace hindsight {
namespace {

absl::Status Edit(const RefineOptions& options, RestoredProcess* process) {
  for (const MemoryChange& edit : options.memory) {
    if (!process->WriteMemory(edit.address, edit.bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("no memory at ", absl::Hex(edit.address), " to be changed"));
    }
  }
  for (const RegistersChange& edit : options.registers) {
    RETURN_IF_ERROR(process->SetRegisters(edit.thread, edit.registers));
  }
  const bool edited = !options.memory.empty() || !options.registers.empty();
  return edited ? process->ForgetFault() : absl::OkStatus();
}

class Refinement {
 public:
  Refinement(const TraceReader& trace, const FullKeyframe& keyframe, const RefineOptions& options)
      : trace_(trace),
        keyframe_(keyframe),
        options_(options),
        check_(options.target, options.expected) {}

  absl::StatusOr<RefineResult> Run() {
    SnapshotOptions snapshots = options_.snapshots;
    snapshots.launch = [this](PointListener* listener) { return Launch(listener); };
    snapshots.release = [this] { process_->Release(); };
    snapshots.on_capture = [this](const Capture& capture) { return OnCapture(capture); };
    ASSIGN_OR_RETURN(result_.snapshots, TakeSnapshots(snapshots));
    return std::move(result_);
  }

 private:
  absl::StatusOr<pid_t> Launch(PointListener* listener);
  bool OnCapture(const Capture& capture);

  const TraceReader& trace_;
  const FullKeyframe& keyframe_;
  const RefineOptions& options_;
  std::unique_ptr<RestoredProcess> process_;
  TargetCheck check_;
  RefineResult result_;
};

absl::StatusOr<pid_t> Refinement::Launch(PointListener* listener) {
  ASSIGN_OR_RETURN(process_,
                   RestoreEdited(trace_, keyframe_, options_, {.path = listener->path()}));
  RETURN_IF_ERROR(process_->AwaitSignal());
  result_.notes = process_->notes();
  listener->Continue(options_.earlier_control);
  listener->Start(process_->pid());
  return process_->pid();
}

bool Refinement::OnCapture(const Capture& capture) {
  if (!check_.IsReached(capture.cause, capture.time_ns)) return false;
  result_.differences = check_.Compare(CapturedMemory(capture));
  result_.reached = true;
  kill(process_->pid(), SIGKILL);  // while its trigger waits
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RestoredProcess>> RestoreEdited(const TraceReader& trace,
                                                               const FullKeyframe& keyframe,
                                                               const RefineOptions& options,
                                                               const ControlFile& control_file) {
  ASSIGN_OR_RETURN(std::unique_ptr<RestoredProcess> process,
                   RestoredProcess::Make(trace, keyframe, control_file));
  const std::vector<std::string>& lost = process->notes().lost;
  if (!lost.empty() && !options.force) {
    return absl::FailedPreconditionError(absl::StrJoin(lost, "\n"));
  }
  RETURN_IF_ERROR(Edit(options, process.get()));
  return process;
}

absl::StatusOr<RefineResult> Refine(const TraceReader& trace, const FullKeyframe& keyframe,
                                    const RefineOptions& options) {
  return Refinement(trace, keyframe, options).Run();
}

}  // namespace hindsight
