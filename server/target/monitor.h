// The monitor commands: what a user can ask the server that the debugger has no command for.
//
// Borrows trace and timeline, which must outlive it. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_MONITOR_H_
#define HINDSIGHT_SERVER_TARGET_MONITOR_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "keyframes/state/places.h"
#include "keyframes/timeline/timeline.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct MonitorResult {
  std::string output;  // ends with a newline unless empty
  int32_t thread = 0;  // that the user is to look at from now on; 0: as before
};

class Monitor {
 public:
  Monitor(const TraceReader* trace, Timeline* timeline) : trace_(trace), timeline_(timeline) {}

  // What `command` answers, for a user who looks at the thread `selected`, which must be alive.
  // kInvalidArgument: a message for the user. kCancelled: `interrupt` (polled, may be null) was
  // raised.
  absl::StatusOr<MonitorResult> Run(absl::string_view command, int32_t selected,
                                    const std::atomic<bool>* interrupt);

  // Moves the timeline: start, end, POSITION, PERCENT%, snapshot N, bookmark NAME, thread TID
  // [end]. The thread that the place belongs to. `selected`: whom the user looks at before.
  absl::StatusOr<int32_t> GoTo(absl::string_view where, int32_t selected,
                               const std::atomic<bool>* interrupt);

  // The user looks at `thread`, here.
  void Visit(int32_t thread) { places_.Visit({timeline_->moment(), thread}); }

 private:
  struct Command;
  static absl::Span<const Command> Commands();
  // Who asks.
  struct Question {
    absl::string_view arguments;
    int32_t selected = 0;
    const std::atomic<bool>* interrupt = nullptr;
    int32_t* goes_to = nullptr;  // the result's thread
  };

  absl::StatusOr<std::string> Help(const Question& question);
  absl::StatusOr<std::string> When(const Question& question);
  absl::StatusOr<std::string> Jump(const Question& question);
  absl::StatusOr<std::string> Threads(const Question& question);
  absl::StatusOr<std::string> Processes(const Question& question);
  absl::StatusOr<std::string> Snapshots(const Question& question);
  absl::StatusOr<std::string> Events(const Question& question);
  absl::StatusOr<std::string> Info(const Question& question);
  absl::StatusOr<std::string> Maps(const Question& question);
  absl::StatusOr<std::string> Statistics(const Question& question);
  absl::StatusOr<std::string> Discard(const Question& question);

  absl::StatusOr<std::string> Bookmark(const Question& question);
  absl::StatusOr<std::string> Unbookmark(const Question& question);
  absl::StatusOr<std::string> Bookmarks(const Question& question);
  absl::StatusOr<std::string> Back(const Question& question);
  absl::StatusOr<std::string> Forward(const Question& question);

  std::string WhereIs(int32_t thread) const;
  absl::StatusOr<std::string> Return(std::optional<Place> place, const Question& question);
  absl::StatusOr<int32_t> Go(absl::string_view where, const std::atomic<bool>* interrupt);
  absl::StatusOr<int32_t> GoToPosition(const Position& position,
                                       const std::atomic<bool>* interrupt);
  absl::StatusOr<int32_t> GoToThread(absl::string_view which, const std::atomic<bool>* interrupt);
  // A thread of the recording, alive or not.
  absl::StatusOr<int32_t> ParseThread(absl::string_view text) const;

  const TraceReader* trace_;
  Timeline* timeline_;
  Places places_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_MONITOR_H_
