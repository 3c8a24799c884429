#include "cli/snapshots/refine_record.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "recorder/record.h"
#include "recorder/session/options.h"
#include "recorder/snapshot/points/recorded_points.h"

namespace hindsight {
namespace {

SnapshotCause CauseOf(const SnapshotReason& reason) {
  return {.trigger = reason.trigger,
          .thread = reason.thread,
          .level = reason.level,
          .class_number = reason.class_number,
          .id = reason.id,
          .text = reason.text};
}

SnapshotResult ResultOf(const RecordResult& recorded, bool reached) {
  return {.wait_status = reached ? -1 : recorded.wait_status,
          .snapshots = recorded.snapshots,
          .trace_bytes = recorded.trace_bytes,
          .seconds = recorded.seconds,
          .end_reason = recorded.end_reason};
}

}  // namespace

absl::StatusOr<RefineResult> RecordRefinement(const TraceReader& trace, const RefinePlan& plan) {
  const CaptureConfiguration& capture = plan.options.snapshots.configuration;
  ASSIGN_OR_RETURN(const std::unique_ptr<RecordedPoints> points,
                   RecordedPoints::Make(capture.points, plan.options.earlier_control));
  const ControlFile control = {.path = plan.listens ? points->path() : "", .shared = false};
  ASSIGN_OR_RETURN(const std::unique_ptr<RestoredProcess> process,
                   RestoreEdited(trace, *plan.from, plan.options, control));
  RefineResult result;
  result.notes = process->notes();
  TargetCheck check(plan.options.target, plan.options.expected);
  RecordOptions options;
  options.directory = plan.options.snapshots.directory;
  options.attach_pid = process->pid();
  options.traced_threads = process->threads();
  options.signaled_thread = process->signaled_thread();
  options.listens = plan.listens;
  options.capture = capture;
  options.on_snapshot = [&](const SnapshotReason& reason, int32_t recorded) {
    if (recorded != process->pid() || !check.IsReached(CauseOf(reason), reason.time_ns)) {
      return false;
    }
    result.differences = check.Compare(recorded);
    result.reached = true;
    return true;
  };
  ASSIGN_OR_RETURN(const RecordResult recorded, RecordProgram(options));
  result.instructions = recorded.instructions;
  result.snapshots = ResultOf(recorded, result.reached);
  return result;
}

}  // namespace hindsight
