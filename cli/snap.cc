// hindsight snap: takes snapshots of a program that runs natively, and exits with its status.

#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "cli/capture/capture_options.h"
#include "cli/command.h"
#include "cli/option_values.h"
#include "cli/running/exit_status.h"
#include "cli/running/front_process.h"
#include "cli/running/run_choice.h"
#include "cli/running/save_option.h"
#include "recorder/snapshot/snapshot_session.h"
#include "recorder/snapshot/time_summary.h"
#include "recorder/snapshot/written_memory.h"

namespace hindsight {
namespace {

constexpr absl::string_view kCaptureSettings[] = {
    "level",  "class",    "id",    "attr",      "trigger", "on-exception", "skip",
    "stride", "interval", "every", "on-signal", "at",      "max",          "save"};

// The worker gets it when the process in front of it is killed.
const int kEndSignal = SIGRTMIN + 6;

struct SnapValues {
  SizeValue max_memory, max_shared;
  SizeValue max_written = {WrittenMemory::kMostBytes};
  RunChoice run;
  bool quiet = false;
};

void AddSnapOptions(Options* options, SnapValues* values) {
  AddOutputOption(options, &values->run.directory);
  options->Add("attach", &values->run.attach_pid, "PID",
               "Take snapshots of this running process, until it ends or Ctrl-C; then it continues "
               "as before.");
  options->Add("max-memory", &values->max_memory, "SIZE",
               "What snapshots that are not written yet may take of memory (500M, 8G); with more, "
               "points wait for the disk and the timer passes its turn. 0: a quarter of the "
               "machine's.");
  options->Add("max-shared", &values->max_shared, "SIZE",
               "Shared memory, and memory that children do not get, in one snapshot at most (16M, "
               "1G); it is copied while PROG stands still. 0: 64M.");
  options->Add("max-written", &values->max_written, "SIZE",
               "Of memory that PROG has written since the snapshot before, so much is copied while "
               "it stands still (16M, 64M), which takes a millisecond for 6 MB; each page of the "
               "rest costs PROG some microseconds when it writes there again. 0: none.");
  options->Add("ring", &values->run.ring, "SIZE|TIME|COUNT",
               "Keep the newest snapshots only: so much on disk (500M, 2G), so far back (30s, "
               "10min, 2h), or so many (20).");
  options->Add("ring-pool", &values->run.ring_pool, "process",
               "Snapshots are of the whole process: they have no pool for each thread.");
  AddSaveOption(options, &values->run.save);
  options->Add("quiet", &values->quiet, "", "Print only errors.");
}

// Empty, or what is wrong.
std::string Check(const RunChoice& run) {
  if (run.attach_pid != 0 && run.save.on != SaveValue::On::kAll) {
    return "--save-on needs a program to run: how one ends that --attach was given is not known";
  }
  if (run.ring_pool.by_thread) {
    return "a snapshot is of all threads: --ring-pool=thread is of recordings";
  }
  return CheckRun(run);
}

void Fill(const SnapValues& values, SnapshotOptions* snap) {
  snap->directory = values.run.directory;
  snap->attach_pid = values.run.attach_pid;
  snap->on_problem = [](const std::string& problem) { PrintError(problem); };
  snap->arguments = values.run.arguments;
  snap->end_signal = kEndSignal;
  snap->ring = values.run.ring.limits;
  snap->max_copy_bytes = values.max_memory.bytes;
  snap->max_shared_bytes = values.max_shared.bytes;
  snap->max_written_bytes = values.max_written.bytes;
}

std::string MillisecondsText(const TimeSummary& times) {
  return absl::StrFormat("%.1f ms (worst %.1f)", static_cast<double>(times.MedianNs()) / 1e6,
                         static_cast<double>(times.worst_ns()) / 1e6);
}

void Report(const SnapshotOptions& snap, const SnapshotResult& result, bool quiet) {
  if (result.failed != 0) {
    PrintError(absl::StrCat(result.failed, " snapshots could not be taken, the first because ",
                            result.first_failure));
  }
  for (const std::string& problem : result.problems) PrintError(problem);
  if (result.passed_over != 0) {
    PrintError(absl::StrCat(result.passed_over,
                            " snapshots of the timer were passed over: those before were still "
                            "being written (--max-memory allows more)"));
  }
  if (quiet) return;
  std::string text = absl::StrCat(snap.directory, ": ", result.snapshots, " snapshots, ",
                                  SizeText(result.trace_bytes));
  if (result.stood.count() != 0) {
    absl::StrAppend(&text, ", stopped for ", MillisecondsText(result.stood), ", skew ",
                    MillisecondsText(result.skew));
  }
  PrintError(absl::StrFormat("%s, %.1f s", text, result.seconds));
}

// Returns the exit status, or does not return.
int Run(const SnapshotOptions& snap, const SnapValues& values) {
  const absl::StatusOr<SnapshotResult> result = TakeSnapshots(snap);
  if (!result.ok()) {
    const int failure = FailureStatus(result.status());
    return snap.attach_pid != 0 ? kExitRecorder : failure;
  }
  Report(snap, *result, values.quiet);
  if (result->cut_short || (!result->end_reason.empty() && snap.attach_pid == 0)) {
    PrintError(result->end_reason);
  }
  if (snap.attach_pid == 0) {
    RemoveUnlessWanted(values.run.save, snap.directory, result->wait_status, values.quiet);
  }
  if (snap.attach_pid != 0) return result->cut_short ? kExitRecorder : 0;
  return ExitLike(result->wait_status);
}

}  // namespace

int SnapCommand(Arguments arguments) {
  SnapshotOptions snap;
  SnapValues values;
  Options options(
      "snap [options] [--] PROG ARGS...",
      "Runs PROG natively and takes snapshots of it: all memory, and all threads stopped together. "
      "They are taken\nat the points that PROG marks (libhindsight), by the timer, before signals "
      "(--on-signal), at functions (--at),\nand when this process gets SIGUSR1. Input, output, "
      "environment and exit status are PROG's own; if PROG dies\nof a signal, so does this. Exits "
      "with 127 if PROG is not found, 126 if it cannot be executed, 125 if snapshots\ncannot be "
      "written. With --attach: 0, or 125 if that fails.");
  AddSnapOptions(&options, &values);
  CaptureOptions capture;
  capture.AddTo(&options, kCaptureSettings);
  int exit_status = 0;
  auto parsed = ParseOrExit("snap", options, arguments, true, &exit_status);
  if (!parsed) return exit_status;
  values.run.arguments = parsed->rest;
  const std::string wrong = Check(values.run);
  if (!wrong.empty()) return UsageError("snap", wrong);
  absl::StatusOr<CaptureConfiguration> configuration = capture.Read();
  if (!configuration.ok()) return UsageError("snap", configuration.status().message());
  snap.configuration = *std::move(configuration);
  if (!ChooseDirectory(&values.run)) return kExitRecorder;
  Fill(values, &snap);
  return RunBehindFront(kEndSignal, [&](const sigset_t& mask) {
    snap.program_mask = mask;
    return Run(snap, values);
  });
}

}  // namespace hindsight
