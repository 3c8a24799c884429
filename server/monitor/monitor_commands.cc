#include "server/monitor/monitor_commands.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hindsight {
namespace {

constexpr absl::string_view kHelp = "help";

}  // namespace

void MonitorCommands::Add(absl::string_view name, absl::string_view arguments,
                          absl::string_view summary, Run run) {
  entries_.push_back(
      {std::string(name), std::string(arguments), std::string(summary), std::move(run)});
}

absl::StatusOr<std::string> MonitorCommands::Execute(absl::string_view line,
                                                     MonitorQuestion question) const {
  std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(absl::StripAsciiWhitespace(line), absl::MaxSplits(absl::ByAnyChar(" \t"), 1));
  if (parts.first.empty()) parts.first = kHelp;
  question.arguments = absl::StripAsciiWhitespace(parts.second);
  const auto no_arguments = [&] {
    return absl::InvalidArgumentError(absl::StrCat("'", parts.first, "' takes no arguments"));
  };
  if (parts.first == kHelp) {
    if (!question.arguments.empty()) return no_arguments();
    return HelpText();
  }
  for (const Entry& candidate : entries_) {
    if (candidate.name != parts.first) continue;
    if (candidate.arguments.empty() && !question.arguments.empty()) return no_arguments();
    return candidate.run(question);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown command '", parts.first, "' (see 'monitor help')"));
}

std::string MonitorCommands::HelpText() const {
  std::string out = absl::StrCat("monitor ", kHelp, "\n    this list\n");
  for (const Entry& command : entries_) {
    absl::StrAppend(&out, "monitor ", command.name, command.arguments.empty() ? "" : " ",
                    command.arguments, "\n    ", command.summary, "\n");
  }
  return out;
}

}  // namespace hindsight
