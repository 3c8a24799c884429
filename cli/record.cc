// hindsight record: records one run of a program, and ends as the program ended.

#include "recorder/record.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/trace_path.h"

namespace hindsight {
namespace {

// As env(1) and timeout(1) have it, so that scripts can tell our failures from the program's.
constexpr int kExitRecorder = 125;
constexpr int kExitNotExecutable = 126;
constexpr int kExitNotFound = 127;

std::string SizeText(uint64_t bytes) {
  if (bytes < 10'000'000) return absl::StrFormat("%.1f kB", bytes / 1e3);
  return absl::StrFormat("%.1f MB", bytes / 1e6);
}

int FailureStatus(const absl::Status& status) {
  PrintError(status.message());
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kInvalidArgument:
      return kExitNotExecutable;
    default:
      return kExitRecorder;
  }
}

// Dies of the signal the program died of, so that the caller sees the same.
void DieBy(int signal) {
  rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);  // the program's core is the one that counts
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
}

int ExitLike(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  std::fflush(nullptr);
  DieBy(WTERMSIG(wait_status));
  return 128 + WTERMSIG(wait_status);
}

int RunRecording(const RecordOptions& base, ProgressLine* progress) {
  RecordOptions record = base;
  record.progress = [progress](const RecordProgress& now) {
    // Only once the program runs longer than anyone wants to be told of.
    if (now.seconds < 1) return;
    progress->Show(absl::StrFormat("recording: %.1f s, %.1f M instructions, %s", now.seconds,
                                   now.instructions / 1e6, SizeText(now.trace_bytes)));
  };
  if (!progress->on_terminal()) record.progress = nullptr;
  absl::StatusOr<RecordResult> result = RecordProgram(record);
  progress->Clear();
  if (!result.ok()) return FailureStatus(result.status());
  progress->Finish(absl::StrFormat("%s: %.1f M instructions, %d events, %s, %.1f s",
                                   record.directory, result->instructions / 1e6, result->events,
                                   SizeText(result->trace_bytes), result->seconds));
  return ExitLike(result->wait_status);
}

}  // namespace

int RecordCommand(Arguments arguments) {
  RecordOptions record;
  std::string engine = "emulate";
  Options options(
      "record [options] [--] PROG ARGS...",
      "Runs PROG and records it. Input, output, environment and exit status are PROG's own; if "
      "PROG "
      "dies\nof a signal, so does this. Exits with 127 if PROG is not found, 126 if it cannot be "
      "executed, 125\nif recording itself fails.");
  options.Add("output", &record.directory, "DIR",
              "The trace: a directory that does not exist or is empty. Without it "
              "PROG-N.hindsight in the current directory, N the lowest number that is free.");
  options.Alias('o');
  options.Add("engine", &engine, "NAME", "How to record: emulate.");
  options.Add("memory-model", &record.memory_model, "NAME",
              "Which events are put in order over all threads: kernel, fence, acqrel or load.");
  options.Add("light-keyframe-interval", &record.light_keyframe_interval, "N",
              "Begin a segment every N instructions; 0: only at the start. Shorter ones make going "
              "back faster and the trace larger.");
  options.Add("full-keyframe-interval", &record.full_keyframe_interval, "N",
              "Save all memory every N instructions; 0: only at the start.");
  options.Add("quantum", &record.quantum, "N",
              "Look for signals and keyframes due every N instructions.");
  options.Add("max-module-bytes", &record.max_module_bytes, "N",
              "Mapped files larger than this are named in the trace, but not stored.");
  int exit_status = 0;
  auto parsed = ParseOrExit("record", options, arguments, true, &exit_status);
  if (!parsed) return exit_status;
  if (parsed->rest.empty()) return UsageError("record", "which program?");
  if (engine != "emulate") return UsageError("record", absl::StrCat("unknown engine ", engine));
  const std::string& model = record.memory_model;
  if (model != "kernel" && model != "fence" && model != "acqrel" && model != "load") {
    return UsageError("record", absl::StrCat("unknown memory model ", model));
  }
  if (record.quantum == 0) return UsageError("record", "--quantum must not be 0");
  record.arguments = parsed->rest;
  if (record.directory.empty()) record.directory = NewTracePath(".", record.arguments[0]);
  // Told apart here from a program that is not found.
  const std::filesystem::path parent = std::filesystem::path(record.directory).parent_path();
  std::error_code error;
  if (!parent.empty() && !std::filesystem::is_directory(parent, error)) {
    PrintError(absl::StrCat(parent.string(), ": no such directory"));
    return kExitRecorder;
  }
  ProgressLine progress;
  return RunRecording(record, &progress);
}

}  // namespace hindsight
