#include "cli/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "cli/process_choice.h"
#include "cli/trace_path.h"
#include "confine/confinement.h"
#include "confine/memory_budget.h"
#include "emulator/unicorn/unicorn_library.h"
#include "isa/host_features.h"

namespace hindsight {

void PrintError(absl::string_view message) {
  const std::string text = absl::StrReplaceAll(message, {{"\n", " "}});
  const std::string line = absl::StrCat("hindsight: ", Printable(text), "\n");
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
absl::StatusOr<TraceDirectory> FindProcess(const TraceDirectory& directory,
                                           const std::string& wanted) {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(const std::vector<ProcessInfo> processes, ListProcesses(directory, &warnings));
  std::vector<ProcessName> names;
  for (const ProcessInfo& process : processes) {
    if (ProcessId(process) == wanted) return process.files;
  }
  for (const ProcessInfo& process : processes) {
    const auto trace = TraceReader::Open(process.files);
    names.push_back({ProcessId(process),
                     trace.ok() ? LastProgram(**trace) : process.manifest.program,
                     Crashed(process)});
  }
  ASSIGN_OR_RETURN(const size_t chosen, ChooseProcess(names, wanted));
  return processes[chosen].files;
}

// The process of the recording in `directory` that crashed, where exactly one did; else the first.
absl::StatusOr<TraceDirectory> FindCrashed(const TraceDirectory& directory) {
  ASSIGN_OR_RETURN(const std::vector<ProcessInfo> processes, ListProcesses(directory, nullptr));
  // If the user named a child's trace, it is the one meant.
  if (processes.empty() || processes.front().manifest.parent_pid != 0) return directory;
  const auto crashed = std::find_if(processes.begin(), processes.end(), Crashed);
  if (crashed == processes.end()) return directory;
  const bool only = std::find_if(crashed + 1, processes.end(), Crashed) == processes.end();
  return only ? crashed->files : directory;
}

void ConfineTo(const TraceDirectory& directory, uint64_t memory_limit_bytes) {
  // Both read files while those can still be opened.
  tzset();
  LoadUnicorn();
  if (memory_limit_bytes == 0) memory_limit_bytes = DefaultMemoryLimit();
  ConfinementOptions options;
  options.readable_directories = {directory.root_descriptor()};
  options.memory_limit_bytes = memory_limit_bytes;
  options.out_of_memory = [memory_limit_bytes] {
    PrintError(absl::StrCat("reading the trace takes more than ", SizeText(memory_limit_bytes),
                            " of memory; --max-memory=SIZE allows more"));
    _exit(kExitFailure);
  };
  const std::vector<std::string> gaps = Confine(options);
  if (gaps.empty()) return;
  PrintError(absl::StrCat("warning: this system cannot confine the process that reads the trace: ",
                          absl::StrJoin(gaps, "; ")));
}

absl::StatusOr<TraceDirectory> OpenConfined(const Options::Parsed& parsed,
                                            const TraceChoice& choice) {
  std::string path;
  if (parsed.operands.empty()) {
    ASSIGN_OR_RETURN(path, NewestTrace("."));
  } else {
    path = parsed.operands[0];
  }
  ASSIGN_OR_RETURN(TraceDirectory directory, TraceDirectory::Open(path));
  ConfineTo(directory, choice.max_memory.bytes);
  if (choice.process.empty()) {
    if (choice.prefers_crashed) return FindCrashed(directory);
    return directory;
  }
  return FindProcess(directory, choice.process);
}

}  // namespace

std::optional<TraceDirectory> TraceOperand(absl::string_view command, const Options::Parsed& parsed,
                                           const TraceChoice& choice, int* exit_status) {
  if (parsed.operands.size() > 1) {
    *exit_status =
        UsageError(command, absl::StrCat("one trace expected, also given: ", parsed.operands[1]));
    return std::nullopt;
  }
  absl::StatusOr<TraceDirectory> directory = OpenConfined(parsed, choice);
  if (directory.ok()) return *std::move(directory);
  *exit_status = Failure(directory.status());
  return std::nullopt;
}

std::unique_ptr<TraceReader> OpenTraceOperand(absl::string_view command,
                                              const Options::Parsed& parsed,
                                              const TraceChoice& choice, int* exit_status) {
  const auto directory = TraceOperand(command, parsed, choice, exit_status);
  if (!directory) return nullptr;
  absl::StatusOr<std::unique_ptr<TraceReader>> trace = TraceReader::Open(*directory);
  if (!trace.ok()) {
    *exit_status = Failure(trace.status());
    return nullptr;
  }
  for (const std::string& warning : (*trace)->warnings()) {
    PrintError(absl::StrCat("warning: ", warning));
  }
  return *std::move(trace);
}

void PrintOtherProcesses(const TraceReader& trace) {
  const auto processes = ListProcesses(trace.files().Recording(), nullptr);
  if (!processes.ok() || processes->size() < 2) return;
  const auto shown =
      std::find_if(processes->begin(), processes->end(), [&trace](const ProcessInfo& process) {
        return process.manifest.uuid == trace.manifest().uuid;
      });
  if (shown == processes->end()) return;
  PrintError(absl::StrCat("this is process ", ProcessId(*shown), " (", LastProgram(trace), ")",
                          Crashed(*shown) ? ", which crashed" : "", ", one of ", processes->size(),
                          "; -p PID|NAME chooses another, 'hindsight info ",
                          processes->front().directory, "' lists them"));
}

void WarnOfMissingFeatures(const TraceReader& trace) {
  const std::vector<std::string> missing =
      MissingFeatures(trace.manifest().required_features, HostFeatures::OfThisHost());
  if (missing.empty()) return;
  PrintError(absl::StrCat("warning: the recording needs ", absl::StrJoin(missing, " "),
                          ", which this host lacks: it can be replayed up to the first "
                          "instruction that does"));
}

void AddTraceOptions(Options* options, TraceChoice* choice, absl::string_view without_process) {
  options->Add("process", &choice->process, "PID|NAME",
               absl::StrCat("The process of the recording, by its pid or its program (the one it "
                            "executed last), or 'crashed': the one that did; ",
                            without_process, "."));
  options->Alias('p');
  options->Add("max-memory", &choice->max_memory, "SIZE",
               "End if reading the recording takes more memory than this (500M, 8G); 0: three "
               "quarters of the machine's.");
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
