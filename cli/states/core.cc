// hindsight core: a core file of a recorded process, for debuggers that know nothing of recordings.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/states/core_file_maker.h"
#include "keyframes/inspect/core_file.h"
#include "keyframes/inspect/snapshot_view.h"
#include "keyframes/inspect/timeline_view.h"
#include "keyframes/state/place_text.h"
#include "keyframes/timeline/timeline.h"

namespace hindsight {
namespace {

// "3" is a snapshot's number; everything else is as for 'goto'.
std::string PlaceText(const std::string& operand) {
  uint64_t number = 0;
  return absl::SimpleAtoi(operand, &number) ? absl::StrCat("snapshot ", number) : operand;
}

absl::StatusOr<CoreSummary> Write(ProcessView* view, const CoreOptions& where, CoreFileMaker* files,
                                  const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CoreOutput> output, files->Create(path));
  ProgressLine progress;
  CoreOptions options = where;
  uint64_t shown = 0;
  options.progress = [&](uint64_t done, uint64_t total) {
    constexpr uint64_t kEveryBytes = 16 << 20;
    if (done - shown < kEveryBytes) return;
    shown = done;
    progress.Show(
        absl::StrFormat("writing %s: %.0f of %.0f MB", Printable(path), done / 1e6, total / 1e6));
  };
  return WriteCore(view, options, output.get());
}

absl::StatusOr<CoreSummary> WriteAt(const TraceReader& trace, const std::string& where,
                                    CoreFileMaker* files, const std::string& path) {
  const bool extended = trace.manifest().register_layout != kBaseRegisterLayout;
  if (IsSnapshotTrace(trace)) {
    std::vector<SnapshotInfo> snapshots = ListSnapshots(trace);
    ASSIGN_OR_RETURN(const size_t index, FindSnapshot(snapshots, where));
    SnapshotView view(&trace, std::move(snapshots));
    view.GoTo(index);
    return Write(&view, {.thread = view.CurrentThread(), .extended_registers = extended}, files,
                 path);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Timeline> timeline, Timeline::Open(&trace));
  ASSIGN_OR_RETURN(const Place place, ParsePlace(PlaceText(where), timeline->process(), Places()));
  RETURN_IF_ERROR(timeline->SeekTo(place.moment));
  TimelineView view(&trace, timeline.get());
  return Write(&view, {.thread = place.thread, .extended_registers = extended}, files, path);
}

}  // namespace

int CoreCommand(Arguments arguments) {
  std::string path;
  TraceChoice choice;
  Options options("core [TRACE] PLACE -o FILE",
                  "Writes the process as it was at a place of a recording to an ELF core file, "
                  "with all threads, for any\ndebugger: gdb PROGRAM FILE. PLACE is a position "
                  "(1A:3F), start, end, 50%, 'thread TID end', or the number\nof a snapshot. "
                  "Memory that is not known there is left out.");
  choice.prefers_crashed = true;
  AddTraceOptions(&options, &choice,
                  "without it the one that crashed, or the first unless exactly one did");
  options.Add("output", &path, "FILE", "The file to write, which must not exist.");
  options.Alias('o');
  int exit_status = 0;
  auto parsed = ParseOrExit("core", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  if (path.empty()) return UsageError("core", "which file is to be written? -o FILE");
  if (parsed->operands.empty()) return UsageError("core", "at which place of the recording?");
  const std::string where = parsed->operands.back();
  parsed->operands.pop_back();
  absl::StatusOr<CoreFileMaker> files = CoreFileMaker::Start(CoreFileMaker::Names::kTrusted);
  if (!files.ok()) return Failure(files.status());
  const auto trace = OpenTraceOperand("core", *parsed, choice, &exit_status);
  if (trace == nullptr) return exit_status;
  if (choice.process.empty()) PrintOtherProcesses(*trace);
  const absl::StatusOr<CoreSummary> summary = WriteAt(*trace, where, &*files, path);
  if (!summary.ok()) return Failure(summary.status());
  if (!summary->missing.empty()) PrintError(summary->missing);
  return Print(absl::StrCat(Printable(path), ": ", ToString(*summary), "\n")) ? 0 : kExitFailure;
}

}  // namespace hindsight
