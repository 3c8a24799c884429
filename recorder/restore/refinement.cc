#include "recorder/restore/refinement.h"

#include <signal.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "recorder/process/process_memory.h"
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
  return absl::OkStatus();
}

class Refinement {
 public:
  Refinement(const TraceReader& trace, const FullKeyframe& keyframe, const RefineOptions& options)
      : trace_(trace), keyframe_(keyframe), options_(options) {}

  absl::StatusOr<RefineResult> Run() {
    SnapshotOptions snapshots = options_.snapshots;
    snapshots.launch = [this](PointListener* listener) { return Launch(listener); };
    snapshots.on_capture = [this](const Capture& capture) { return OnCapture(capture); };
    ASSIGN_OR_RETURN(result_.snapshots, TakeSnapshots(snapshots));
    return std::move(result_);
  }

 private:
  absl::StatusOr<pid_t> Launch(PointListener* listener);
  bool OnCapture(const Capture& capture);
  bool IsTarget(const Capture& capture);
  void Compare(const Capture& capture);

  const TraceReader& trace_;
  const FullKeyframe& keyframe_;
  const RefineOptions& options_;
  std::unique_ptr<RestoredProcess> process_;
  uint64_t arrivals_ = 0;
  RefineResult result_;
};

absl::StatusOr<pid_t> Refinement::Launch(PointListener* listener) {
  ASSIGN_OR_RETURN(process_, RestoreEdited(trace_, keyframe_, options_, listener->path()));
  result_.notes = process_->notes();
  listener->Start(process_->pid());
  process_->Release();
  return process_->pid();
}

bool Refinement::IsTarget(const Capture& capture) {
  const RefineTarget& target = *options_.target;
  if (target.by_time) return capture.time_ns >= target.elapsed_ns;
  const SnapshotCause &wanted = target.cause, &found = capture.cause;
  if (wanted.trigger != found.trigger || wanted.level != found.level ||
      wanted.class_number != found.class_number || wanted.id != found.id ||
      wanted.text != found.text) {
    return false;
  }
  return ++arrivals_ == target.arrivals;
}

void Refinement::Compare(const Capture& capture) {
  const ProcMemFile memory(capture.copy->pid());
  for (const ExpectedBytes& expected : options_.expected) {
    std::vector<uint8_t> found(expected.bytes.size());
    if (!memory.Read(expected.address, absl::MakeSpan(found))) found.clear();
    if (found == expected.bytes) continue;
    result_.differences.push_back({expected.name, expected.bytes, std::move(found)});
  }
}

bool Refinement::OnCapture(const Capture& capture) {
  if (!options_.target.has_value() || !IsTarget(capture)) return false;
  Compare(capture);
  result_.reached = true;
  kill(process_->pid(), SIGKILL);  // while its trigger waits
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RestoredProcess>> RestoreEdited(const TraceReader& trace,
                                                               const FullKeyframe& keyframe,
                                                               const RefineOptions& options,
                                                               const std::string& control_file) {
  ASSIGN_OR_RETURN(std::unique_ptr<RestoredProcess> process,
                   RestoredProcess::Make(trace, keyframe, {.control_file = control_file}));
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
