#include "cli/command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/trace_path.h"

namespace hindsight {

void PrintError(absl::string_view message) {
  std::string line = absl::StrCat("hindsight: ", absl::StrReplaceAll(message, {{"\n", " "}}), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int UsageError(absl::string_view command, absl::string_view message) {
  PrintError(absl::StrCat(command, ": ", message, " (see 'hindsight ", command, " --help')"));
  return kExitUsage;
}

int Failure(const absl::Status& status) {
  PrintError(status.message());
  return kExitFailure;
}

std::optional<Options::Parsed> ParseOrExit(absl::string_view command, const Options& options,
                                           Arguments arguments, bool operands_end_options,
                                           int* exit_status) {
  absl::StatusOr<Options::Parsed> parsed = options.Parse(arguments, operands_end_options);
  if (!parsed.ok()) {
    *exit_status = UsageError(command, parsed.status().message());
    return std::nullopt;
  }
  if (parsed->help) {
    *exit_status = Print(options.Help()) ? 0 : kExitFailure;
    return std::nullopt;
  }
  return *std::move(parsed);
}

std::unique_ptr<TraceReader> OpenTraceOperand(absl::string_view command,
                                              const Options::Parsed& parsed, int* exit_status) {
  if (parsed.operands.size() > 1) {
    *exit_status =
        UsageError(command, absl::StrCat("one trace expected, also given: ", parsed.operands[1]));
    return nullptr;
  }
  absl::StatusOr<std::string> directory =
      parsed.operands.empty() ? NewestTrace(".") : parsed.operands[0];
  absl::StatusOr<std::unique_ptr<TraceReader>> trace =
      directory.ok() ? TraceReader::Open(*directory) : directory.status();
  if (!trace.ok()) {
    *exit_status = Failure(trace.status());
    return nullptr;
  }
  for (const std::string& warning : (*trace)->warnings()) {
    PrintError(absl::StrCat("warning: ", warning));
  }
  return *std::move(trace);
}

bool Print(absl::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
}

}  // namespace hindsight
