#include "cli/command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "cli/process_choice.h"
#include "cli/trace_path.h"
#include "emulator/host_features.h"

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

namespace {

// The process of the recording in `directory` that `wanted` names.
absl::StatusOr<std::string> FindProcess(const std::string& directory, const std::string& wanted) {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(const std::vector<ProcessInfo> processes, ListProcesses(directory, &warnings));
  std::vector<ProcessName> names;
  for (const ProcessInfo& process : processes) {
    if (ProcessId(process) == wanted) return process.directory;
  }
  for (const ProcessInfo& process : processes) {
    const auto trace = TraceReader::Open(process.files);
    names.push_back(
        {ProcessId(process), trace.ok() ? LastProgram(**trace) : process.manifest.program});
  }
  ASSIGN_OR_RETURN(const size_t chosen, ChooseProcess(names, wanted));
  return processes[chosen].directory;
}

}  // namespace

std::string TraceOperand(absl::string_view command, const Options::Parsed& parsed,
                         const std::string& process, int* exit_status) {
  if (parsed.operands.size() > 1) {
    *exit_status =
        UsageError(command, absl::StrCat("one trace expected, also given: ", parsed.operands[1]));
    return "";
  }
  absl::StatusOr<std::string> directory =
      parsed.operands.empty() ? NewestTrace(".") : parsed.operands[0];
  if (directory.ok() && !process.empty()) directory = FindProcess(*directory, process);
  if (directory.ok()) return *std::move(directory);
  *exit_status = Failure(directory.status());
  return "";
}

std::unique_ptr<TraceReader> OpenTraceOperand(absl::string_view command,
                                              const Options::Parsed& parsed,
                                              const std::string& process, int* exit_status) {
  const std::string directory = TraceOperand(command, parsed, process, exit_status);
  if (directory.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<TraceReader>> trace = TraceReader::Open(directory);
  if (!trace.ok()) {
    *exit_status = Failure(trace.status());
    return nullptr;
  }
  for (const std::string& warning : (*trace)->warnings()) {
    PrintError(absl::StrCat("warning: ", warning));
  }
  return *std::move(trace);
}

void TellOfOtherProcesses(const TraceReader& trace) {
  const auto processes = ListProcesses(trace.files(), nullptr);
  if (!processes.ok() || processes->size() < 2) return;
  PrintError(absl::StrCat("this is process ", ProcessId(processes->front()), ", one of ",
                          processes->size(), "; -p PID|NAME chooses another, 'hindsight info ",
                          trace.directory(), "' lists them"));
}

void TellOfMissingFeatures(const TraceReader& trace) {
  const std::vector<std::string> missing =
      MissingFeatures(trace.manifest().required_features, HostFeatures::OfThisHost());
  if (missing.empty()) return;
  PrintError(absl::StrCat("warning: the recording needs ", absl::StrJoin(missing, " "),
                          ", which this host lacks: it can be replayed up to the first "
                          "instruction that does"));
}

void AddProcessOption(Options* options, std::string* process) {
  options->Add("process", process, "PID|NAME",
               "The process of the recording, by its pid or its program (the one it executed "
               "last); without it the first one.");
  options->Alias('p');
}

std::string SizeText(uint64_t bytes) {
  if (bytes < 10'000) return absl::StrCat(bytes, " B");
  if (bytes < 10'000'000) return absl::StrFormat("%.1f kB", bytes / 1e3);
  return absl::StrFormat("%.1f MB", bytes / 1e6);
}

bool Print(absl::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
}

}  // namespace hindsight
