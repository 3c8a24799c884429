#include "cli/states/refine_recording.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/states/refine_places.h"
#include "cli/states/replayed_snapshots.h"
#include "keyframes/inspect/timeline_view.h"
#include "keyframes/state/place_text.h"
#include "keyframes/timeline/timeline.h"

namespace hindsight {
namespace {

// What was written.
struct Refined {
  uint64_t snapshots = 0;
  uint64_t bytes = 0;
};

absl::StatusOr<Refined> Refine(const TraceReader& trace, const RecordingRefinement& wanted) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Timeline> timeline, Timeline::Open(&trace));
  TimelineView view(&trace, timeline.get());
  const RecordedTimes times(trace, timeline->process());
  ASSIGN_OR_RETURN(const RefinePlaces::Moments moments,
                   RefinePlaces(&trace, timeline.get(), &view).Find(wanted, times));
  // A snapshot is of all threads.
  if (const std::string missing = ThinnedText(timeline->process(), moments.begin()->first);
      !missing.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("at the first of these places ", missing));
  }
  RETURN_IF_ERROR(timeline->SeekTo(moments.begin()->first));
  ASSIGN_OR_RETURN(const std::unique_ptr<ReplayedSnapshots> snapshots,
                   ReplayedSnapshots::Create(wanted.directory, &trace, view.ExecutablePath()));
  ProgressLine progress;
  for (const auto& [moment, what] : moments) {
    progress.Show(absl::StrFormat("snapshot %d of %d", snapshots->snapshots() + 1, moments.size()));
    RETURN_IF_ERROR(timeline->SeekTo(moment));
    const bool named = what.thread != 0 && timeline->IsAlive(what.thread);
    RETURN_IF_ERROR(snapshots->Write(
        &view, {.thread = named ? what.thread : timeline->current_thread(),
                .time_ns = times.AtMoment(moment),
                .trigger = what.trigger,
                .text = absl::StrCat("position=", ToString(timeline->position()), "\n")}));
  }
  progress.Clear();
  RETURN_IF_ERROR(snapshots->Finish());
  return Refined{snapshots->snapshots(), snapshots->bytes_written()};
}

}  // namespace

int RefineRecording(const TraceReader& trace, const RecordingRefinement& refinement) {
  const absl::StatusOr<Refined> refined = Refine(trace, refinement);
  if (!refined.ok()) return Failure(refined.status());
  if (!refinement.quiet) {
    PrintError(absl::StrFormat("%s: %d snapshots, %.1f kB, by replay of %s",
                               Printable(refinement.directory), refined->snapshots,
                               static_cast<double>(refined->bytes) / 1e3,
                               Printable(trace.directory())));
  }
  return 0;
}

}  // namespace hindsight
