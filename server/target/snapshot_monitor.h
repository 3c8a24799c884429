// The monitor commands for a sequence of snapshots.
//
// Borrows trace and view, which must outlive it. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_SNAPSHOT_MONITOR_H_
#define HINDSIGHT_SERVER_TARGET_SNAPSHOT_MONITOR_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "keyframes/inspect/core_output.h"
#include "keyframes/inspect/snapshot_view.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class SnapshotMonitor {
 public:
  // `files`: where cores go, borrowed; null: none are written.
  SnapshotMonitor(const TraceReader* trace, SnapshotView* view, CoreFiles* files)
      : trace_(trace), view_(view), files_(files) {}

  // The output of `command`, for a user who has selected the thread `selected`. Goto moves the
  // view. kInvalidArgument: a message for the user. kCancelled: `interrupt` was raised.
  absl::StatusOr<std::string> Run(absl::string_view command, int32_t selected,
                                  const std::atomic<bool>* interrupt);

  // Moves the view: start, end, N, or snapshot N, next or previous.
  absl::Status GoTo(absl::string_view where);

 private:
  struct Command;
  static absl::Span<const Command> Commands();
  struct Question {
    absl::string_view arguments;
    int32_t selected = 0;
    const std::atomic<bool>* interrupt = nullptr;
  };

  absl::StatusOr<std::string> Help(const Question& question);
  absl::StatusOr<std::string> When(const Question& question);
  absl::StatusOr<std::string> Jump(const Question& question);
  absl::StatusOr<std::string> Snapshots(const Question& question);
  absl::StatusOr<std::string> Threads(const Question& question);
  absl::StatusOr<std::string> Info(const Question& question);
  absl::StatusOr<std::string> Maps(const Question& question);
  absl::StatusOr<std::string> Core(const Question& question);
  // There are none: gdb's side of Hindsight asks.
  absl::StatusOr<std::string> Bookmarks(const Question& question);

  const TraceReader* trace_;
  SnapshotView* view_;
  CoreFiles* files_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_SNAPSHOT_MONITOR_H_
