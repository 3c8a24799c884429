// The monitor commands: what a user can ask the server that the debugger has no command for.
//
// Borrows trace, timeline and the view of it, which must outlive it. Neither copyable nor movable.
// One thread at a time.

#ifndef HINDSIGHT_SERVER_MONITOR_MONITOR_H_
#define HINDSIGHT_SERVER_MONITOR_MONITOR_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "keyframes/inspect/core_output.h"
#include "keyframes/inspect/process_view.h"
#include "keyframes/state/places.h"
#include "keyframes/timeline/timeline.h"
#include "server/monitor/monitor_commands.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct MonitorResult {
  std::string output;  // ends with a newline unless empty
  int32_t thread = 0;  // the one to select from now on; 0: as before
};

class Monitor {
 public:
  // `files`: where cores go, borrowed; null: none are written.
  Monitor(const TraceReader* trace, Timeline* timeline, ProcessView* view,
          CoreFiles* files = nullptr);
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // The output of `command`, for a user who has selected the thread `selected`, which must be
  // alive. kInvalidArgument: a message for the user. kCancelled: `interrupt` (polled, may be null)
  // was raised.
  absl::StatusOr<MonitorResult> Run(absl::string_view command, int32_t selected,
                                    const std::atomic<bool>* interrupt);

  // Moves the timeline to the place `where` (keyframes/state/place_text.h) and returns the thread
  // to select there. `selected`: the thread selected before.
  absl::StatusOr<int32_t> GoTo(absl::string_view where, int32_t selected,
                               const std::atomic<bool>* interrupt);

  // The user has selected `thread`, here.
  void Visit(int32_t thread) { places_.Visit({timeline_->moment(), thread}); }

 private:
  using Question = MonitorQuestion;
  void AddPlaces();
  void AddContents();

  absl::StatusOr<std::string> When(const Question& question);
  absl::StatusOr<std::string> Jump(const Question& question);
  absl::StatusOr<std::string> Threads(const Question& question);
  absl::StatusOr<std::string> Processes(const Question& question);
  absl::StatusOr<std::string> Snapshots(const Question& question);
  absl::StatusOr<std::string> Events(const Question& question);
  absl::StatusOr<std::string> Info(const Question& question);
  absl::StatusOr<std::string> Statistics(const Question& question);

  absl::StatusOr<std::string> Bookmark(const Question& question);
  absl::StatusOr<std::string> Unbookmark(const Question& question);
  absl::StatusOr<std::string> Bookmarks(const Question& question);
  absl::StatusOr<std::string> Back(const Question& question);
  absl::StatusOr<std::string> Forward(const Question& question);

  // `where`, with what is relative to the present position ("snapshot next") made absolute.
  absl::StatusOr<std::string> AbsolutePlace(absl::string_view where) const;
  std::string WhereIs(int32_t thread) const;
  absl::StatusOr<std::string> Return(std::optional<Place> place, const Question& question);

  const TraceReader* trace_;
  Timeline* timeline_;
  ProcessView* view_;
  MonitorCommands commands_;
  Places places_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_MONITOR_MONITOR_H_
