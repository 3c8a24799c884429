// The monitor commands for a sequence of snapshots.
//
// Borrows trace, view and process, which must outlive it. Neither copyable nor movable. One thread
// at a time.

#ifndef HINDSIGHT_SERVER_SNAPSHOTS_SNAPSHOT_MONITOR_H_
#define HINDSIGHT_SERVER_SNAPSHOTS_SNAPSHOT_MONITOR_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "keyframes/inspect/core_output.h"
#include "keyframes/inspect/snapshot_view.h"
#include "keyframes/inspect/state_edits.h"
#include "server/monitor/monitor_commands.h"
#include "server/snapshots/edited_process.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class SnapshotMonitor {
 public:
  // `files`: where cores and edits go, borrowed; null: none are written.
  // `process`: the snapshot of `view`, with what was written to it.
  SnapshotMonitor(const TraceReader* trace, SnapshotView* view, EditedProcess* process,
                  CoreFiles* files);
  SnapshotMonitor(const SnapshotMonitor&) = delete;
  SnapshotMonitor& operator=(const SnapshotMonitor&) = delete;

  // The output of `command`, for a user who has selected the thread `selected`. Goto moves the
  // view. kInvalidArgument: a message for the user. kCancelled: `interrupt` was raised.
  absl::StatusOr<std::string> Run(absl::string_view command, int32_t selected,
                                  const std::atomic<bool>* interrupt);

  // Moves the view: start, end, N, or snapshot N, next or previous.
  absl::Status GoTo(absl::string_view where);

 private:
  // What was written to the present snapshot.
  absl::StatusOr<StateEdits> CurrentEdits();

  using Question = MonitorQuestion;
  void AddCommands();

  absl::StatusOr<std::string> When(const Question& question);
  absl::StatusOr<std::string> Jump(const Question& question);
  absl::StatusOr<std::string> Snapshots(const Question& question);
  absl::StatusOr<std::string> Threads(const Question& question);
  absl::StatusOr<std::string> Info(const Question& question);
  absl::StatusOr<std::string> Edits(const Question& question);
  absl::StatusOr<std::string> Save(const Question& question);

  const TraceReader* trace_;
  SnapshotView* view_;
  EditedProcess* process_;
  CoreFiles* files_;
  MonitorCommands commands_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SNAPSHOTS_SNAPSHOT_MONITOR_H_
