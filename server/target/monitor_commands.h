// A table of monitor commands, and how they are found in it and listed.

#ifndef HINDSIGHT_SERVER_TARGET_MONITOR_COMMANDS_H_
#define HINDSIGHT_SERVER_TARGET_MONITOR_COMMANDS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hindsight {

// `Run` is what executes it, for the table's owner.
template <typename Run>
struct MonitorCommand {
  const char* name;
  const char* arguments;  // empty: it takes none
  const char* summary;
  Run run;
};

// The command that `line` names ("help" if it names none), and what follows the name.
// kInvalidArgument: a message for the user.
template <typename Run>
absl::StatusOr<std::pair<Run, absl::string_view>> FindCommand(
    absl::Span<const MonitorCommand<Run>> commands, absl::string_view line) {
  std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(absl::StripAsciiWhitespace(line), absl::MaxSplits(absl::ByAnyChar(" \t"), 1));
  if (parts.first.empty()) parts.first = "help";
  for (const MonitorCommand<Run>& candidate : commands) {
    if (candidate.name != parts.first) continue;
    const absl::string_view arguments = absl::StripAsciiWhitespace(parts.second);
    if (arguments.empty() || candidate.arguments[0] != '\0') {
      return std::pair(candidate.run, arguments);
    }
    return absl::InvalidArgumentError(absl::StrCat("'", candidate.name, "' takes no arguments"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown command '", parts.first, "' (see 'monitor help')"));
}

template <typename Run>
std::string HelpText(absl::Span<const MonitorCommand<Run>> commands) {
  std::string out;
  for (const MonitorCommand<Run>& command : commands) {
    absl::StrAppend(&out, "monitor ", command.name, command.arguments[0] == '\0' ? "" : " ",
                    command.arguments, "\n    ", command.summary, "\n");
  }
  return out;
}

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_MONITOR_COMMANDS_H_
