// The monitor commands: what a user can ask the server that the debugger has no command for.
//
// Borrows trace and timeline, which must outlive it. One thread at a time.

#ifndef HINDSIGHT_SERVER_MONITOR_H_
#define HINDSIGHT_SERVER_MONITOR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "keyframes/timeline.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class Monitor {
 public:
  Monitor(const TraceReader* trace, Timeline* timeline) : trace_(trace), timeline_(timeline) {}

  // The output of `command`, which ends with a newline unless empty. kInvalidArgument: a message
  // for the user.
  absl::StatusOr<std::string> Run(absl::string_view command);

  // Moves the timeline: start, end, POSITION, PERCENT%, snapshot N.
  absl::Status GoTo(absl::string_view where);

 private:
  struct Command;
  static absl::Span<const Command> Commands();

  absl::StatusOr<std::string> Help(absl::string_view arguments);
  absl::StatusOr<std::string> When(absl::string_view arguments);
  absl::StatusOr<std::string> GoToCommand(absl::string_view arguments);
  absl::StatusOr<std::string> Snapshots(absl::string_view arguments);
  absl::StatusOr<std::string> Events(absl::string_view arguments);
  absl::StatusOr<std::string> Info(absl::string_view arguments);
  absl::StatusOr<std::string> Maps(absl::string_view arguments);
  absl::StatusOr<std::string> Statistics(absl::string_view arguments);
  absl::StatusOr<std::string> Discard(absl::string_view arguments);

  const TraceReader* trace_;
  Timeline* timeline_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_MONITOR_H_
