// A table of monitor commands: how they are found and listed.
//
// Copyable and movable, like what its commands hold. One thread at a time.

#ifndef HINDSIGHT_SERVER_MONITOR_MONITOR_COMMANDS_H_
#define HINDSIGHT_SERVER_MONITOR_MONITOR_COMMANDS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hindsight {

// What a user asks, without the command's name.
struct MonitorQuestion {
  absl::string_view arguments;
  int32_t selected = 0;                          // the user's thread
  const std::atomic<bool>* interrupt = nullptr;  // polled, may be null
  int32_t* selects = nullptr;  // where the thread to select from now on goes; null: nowhere
};

class MonitorCommands {
 public:
  // kInvalidArgument: a message for the user. kCancelled: the question's `interrupt` was raised.
  using Run = std::function<absl::StatusOr<std::string>(const MonitorQuestion&)>;

  // `arguments`: as the list shows them; empty: it takes none.
  void Add(absl::string_view name, absl::string_view arguments, absl::string_view summary, Run run);
  // The same with a member function of `owner`, which is borrowed.
  template <typename Owner>
  void Add(absl::string_view name, absl::string_view arguments, absl::string_view summary,
           Owner* owner, absl::StatusOr<std::string> (Owner::*run)(const MonitorQuestion&)) {
    Add(name, arguments, summary,
        [owner, run](const MonitorQuestion& question) { return (owner->*run)(question); });
  }

  // The output of the command that `line` names ("help", the list, if it names none), for
  // `question` with the arguments that follow the name. Errors are the command's, and
  // kInvalidArgument for a command that is not there or takes no arguments.
  absl::StatusOr<std::string> Execute(absl::string_view line, MonitorQuestion question) const;

 private:
  struct Entry {
    std::string name, arguments, summary;
    Run run;
  };
  std::string HelpText() const;

  std::vector<Entry> entries_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_MONITOR_MONITOR_COMMANDS_H_
