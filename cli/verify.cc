// hindsight verify: replays all of a recording and checks it.

#include "keyframes/verify/verify.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/process_choice.h"
#include "cli/progress_line.h"
#include "keyframes/state/snapshot_list.h"
#include "keyframes/verify/verify_snapshots.h"

namespace hindsight {
namespace {

std::string SnapshotsJson(const std::string& directory, const SnapshotsVerified& result) {
  Json json;
  json["trace"] = JsonText(directory);
  json["whole"] = result.whole();
  if (!result.whole()) json["difference"] = JsonText(result.difference.message());
  Json& damaged = json["damaged"] = Json::array();
  for (const uint64_t number : result.damaged) damaged.push_back(number);
  json["seconds"] = JsonNumber(result.seconds);
  Json& checked = json["checked"];
  checked["allTakenIsThere"] = result.no_totals.empty();
  checked["snapshots"] = result.snapshots;
  checked["pages"] = result.pages;
  checked["threads"] = result.threads;
  checked["kernelStates"] = result.kernel_states;
  checked["events"] = result.events;
  checked["modules"] = result.modules;
  json["unseenPages"] = result.unseen_pages;
  json["modulesNotStored"] = result.modules_not_stored;
  return JsonDocument(json);
}

std::string SnapshotsText(const SnapshotsVerified& result) {
  if (!result.whole()) {
    const std::string which =
        result.damaged.empty()
            ? ""
            : absl::StrCat("damaged: ", absl::StrJoin(result.damaged, ", "), "; first: ");
    return absl::StrFormat("NOT whole: %d snapshots, %d pages read, %.2f s; %s%s\n",
                           result.snapshots, result.pages, result.seconds, which,
                           Printable(result.difference.message()));
  }
  std::string out = absl::StrFormat(
      "whole: %d snapshots, %d pages, %.2f s\n  checked: %severy page through its references, %d "
      "register files, the kernel's state of the process in %d snapshots, %d events, %d modules\n",
      result.snapshots, result.pages, result.seconds,
      result.no_totals.empty() ? "nothing is missing, " : "", result.threads, result.kernel_states,
      result.events, result.modules);
  if (!result.no_totals.empty()) {
    absl::StrAppend(&out, "  not checked: the end: ", result.no_totals, "\n");
  }
  if (result.unseen_pages > 0) {
    absl::StrAppend(&out, "  not checked: ", result.unseen_pages,
                    " mapped pages that were not captured\n");
  }
  if (result.modules_not_stored > 0) {
    absl::StrAppend(&out, "  not checked: ", result.modules_not_stored,
                    " mapped files: their bytes are not in the trace\n");
  }
  return out;
}

// Of a sequence of snapshots there is nothing to replay.
int VerifySequence(const TraceReader& trace, bool json) {
  for (const std::string& warning : trace.warnings()) PrintError("warning: " + warning);
  ProgressLine progress;
  const size_t all = trace.full_keyframes().size();
  const auto result = VerifySnapshots(trace, [&](uint64_t done) {
    progress.Show(absl::StrFormat("verifying: %d of %d snapshots", done, all));
  });
  progress.Clear();
  if (!result.ok()) return Failure(result.status());
  const bool printed =
      Print(json ? SnapshotsJson(trace.directory(), *result) : SnapshotsText(*result));
  return printed && result->whole() ? 0 : kExitFailure;
}

// The result for one process. `result` is not OK if its trace could not be replayed at all.
struct ProcessResult {
  std::string id;
  std::string directory;
  std::string program;
  absl::StatusOr<VerifyResult> result;

  bool exact() const { return result.ok() && result->exact(); }
  absl::Status difference() const { return result.ok() ? result->difference : result.status(); }
};

VerifyResult Total(const std::vector<ProcessResult>& processes) {
  VerifyResult total;
  for (const ProcessResult& process : processes) {
    total.difference.Update(process.difference());
    if (!process.result.ok()) continue;
    total.segments += process.result->segments;
    total.segments_failed += process.result->segments_failed;
    total.states += process.result->states;
    total.signals += process.result->signals;
    total.checks += process.result->checks;
    total.order_numbers += process.result->order_numbers;
    total.counts.Add(process.result->counts);
    if (total.no_totals.empty() && !process.result->no_totals.empty()) {
      total.no_totals = processes.size() == 1
                            ? process.result->no_totals
                            : absl::StrCat(process.id, ": ", process.result->no_totals);
    }
    total.seconds += process.result->seconds;
  }
  return total;
}

Json CheckedJson(const VerifyResult& result) {
  const VerifyCounts& counts = result.counts;
  Json json;
  json["allRecordedIsThere"] = result.no_totals.empty();
  json["registers"] = result.checks;
  json["orderNumbers"] = result.order_numbers;
  json["events"] = counts.events;
  json["memoryRanges"] = counts.memory_ranges;
  json["memoryBytes"] = counts.memory_bytes;
  json["fullKeyframes"] = counts.full_keyframes;
  json["keyframeStates"] = counts.keyframe_states;
  json["keyframePages"] = counts.keyframe_pages_equal;
  json["modules"] = counts.modules;
  return json;
}

void AddResult(const VerifyResult& result, Json* json) {
  (*json)["exact"] = result.exact();
  if (!result.exact()) (*json)["difference"] = JsonText(result.difference.message());
  (*json)["segments"] = result.segments;
  (*json)["segmentsFailed"] = result.segments_failed;
  (*json)["instructions"] = result.states - result.signals;
  (*json)["states"] = result.states;
  (*json)["checks"] = result.checks;
  (*json)["seconds"] = JsonNumber(result.seconds);
  (*json)["checked"] = CheckedJson(result);
  Json& unchecked = (*json)["unchecked"] = Json::array();
  for (const std::string& line : Unchecked(result)) unchecked.push_back(JsonText(line));
}

std::string VerifyJson(const std::string& directory, const std::vector<ProcessResult>& processes) {
  Json json;
  json["trace"] = JsonText(directory);
  AddResult(Total(processes), &json);
  Json& all = json["processes"] = Json::array();
  for (const ProcessResult& process : processes) {
    Json& entry = all.emplace_back();
    entry["id"] = JsonText(process.id);
    entry["directory"] = JsonText(process.directory);
    entry["program"] = JsonText(process.program);
    AddResult(Total({process}), &entry);
  }
  return JsonDocument(json);
}

std::string ResultText(const VerifyResult& result) {
  std::string totals = absl::StrFormat("%d instructions in %d segments, %d checks, %.2f s",
                                       result.states - result.signals, result.segments,
                                       result.checks, result.seconds);
  if (result.exact()) return absl::StrCat("exact: ", totals);
  const std::string failed =
      result.segments_failed == 0
          ? ""
          : absl::StrCat(result.segments_failed, " segments differ, first: ");
  return absl::StrCat("NOT exact: ", totals, "; ", failed, Printable(result.difference.message()));
}

// What was compared.
std::string CheckedText(const VerifyResult& result) {
  const VerifyCounts& counts = result.counts;
  std::string out = absl::StrFormat(
      "  checked: %s%d register files, %d sequence numbers, %d system calls and signals with their "
      "events, %d bytes of memory in %d places, %d full keyframes (%d threads, %d pages), %d "
      "modules\n",
      result.no_totals.empty() ? "nothing is missing, " : "", result.checks, result.order_numbers,
      counts.events, counts.memory_bytes, counts.memory_ranges, counts.full_keyframes,
      counts.keyframe_states, counts.keyframe_pages_equal, counts.modules);
  for (const std::string& line : Unchecked(result)) {
    absl::StrAppend(&out, "  not checked: ", line, "\n");
  }
  return out;
}

std::string VerifyText(const std::vector<ProcessResult>& processes) {
  const VerifyResult total = Total(processes);
  const std::string checked = total.exact() ? CheckedText(total) : "";
  if (processes.size() == 1) return absl::StrCat(ResultText(total), "\n", checked);
  std::string out;
  for (const ProcessResult& process : processes) {
    absl::StrAppendFormat(&out, "%-9s %s: %s\n", process.id, Printable(process.program),
                          ResultText(Total({process})));
  }
  const size_t exact = std::count_if(processes.begin(), processes.end(),
                                     [](const ProcessResult& process) { return process.exact(); });
  return absl::StrCat(out, exact, " of ", processes.size(), " processes exact; ", ResultText(total),
                      "\n", checked);
}

// `all`: the recording's processes; empty if not all were listed. Nothing: a ring has dropped it.
std::optional<ProcessResult> VerifyProcess(const ProcessInfo& process,
                                           const std::vector<ProcessInfo>& all,
                                           const VerifyOptions& options) {
  ProcessResult result = {ProcessId(process), process.directory, process.manifest.program,
                          absl::UnknownError("")};
  const auto trace = TraceReader::Open(process.files);
  if (HasBeenDropped(process, trace.status())) return std::nullopt;
  if (!trace.ok()) {
    result.result = trace.status();
    return result;
  }
  for (const std::string& warning : (*trace)->warnings()) {
    PrintError(absl::StrCat("warning: ", warning));
  }
  result.program = LastProgram(**trace);
  const bool nothing = (*trace)->threads().empty() && (*trace)->damage().empty();
  // The recorder stopped when the process had just been made.
  if (nothing && process.manifest.parent_pid != 0) {
    result.result = VerifyResult();
  } else {
    result.result = Verify(**trace, options);
  }
  if (result.result.ok() && !all.empty()) {
    result.result->difference.Update(CheckChildren(**trace, all));
  }
  return result;
}

// All processes of the recording in `directory`; with `only_this` the one whose trace that is.
int VerifyRecording(const TraceDirectory& directory, bool only_this, bool json,
                    const VerifyOptions& options) {
  std::vector<std::string> warnings;
  absl::StatusOr<std::vector<ProcessInfo>> processes = ListProcesses(directory, &warnings);
  if (!processes.ok()) return Failure(processes.status());
  const std::vector<ProcessInfo> all = only_this ? std::vector<ProcessInfo>() : *processes;
  if (only_this) processes->resize(1);
  for (const std::string& warning : warnings) {
    if (!only_this) PrintError(absl::StrCat("warning: ", warning));
  }
  ProgressLine progress;
  std::vector<ProcessResult> results;
  for (const ProcessInfo& process : *processes) {
    const std::string which =
        processes->size() == 1
            ? ""
            : absl::StrFormat(" process %d of %d:", results.size() + 1, processes->size());
    VerifyOptions with_progress = options;
    with_progress.progress = [&](const VerifyProgress& now) {
      progress.Show(absl::StrFormat("verifying:%s %d of %d segments, %.1f M instructions", which,
                                    now.segments_done, now.segments_total, now.states_done / 1e6));
    };
    auto result = VerifyProcess(process, all, with_progress);
    if (result.has_value()) results.push_back(*std::move(result));
  }
  progress.Clear();
  if (results.empty()) {
    return Failure(absl::NotFoundError(
        absl::StrCat(directory.path(), ": the ring has gone on and dropped this process")));
  }
  // One that cannot be replayed at all is an error, as in other commands.
  if (results.size() == 1 && !results[0].result.ok()) return Failure(results[0].result.status());
  if (!Print(json ? VerifyJson(directory.path(), results) : VerifyText(results)))
    return kExitFailure;
  // A process that was left out was not verified.
  return Total(results).exact() && (only_this || warnings.empty()) ? 0 : kExitFailure;
}

}  // namespace

int VerifyCommand(Arguments arguments) {
  bool json = false;
  TraceChoice choice;
  VerifyOptions verify;
  Options options(
      "verify [TRACE] [options]",
      "Replays all of a recording, compares it with what was recorded, and reports what was "
      "compared and what\ncould not be. Of a sequence of snapshots it reads everything, and checks "
      "that its parts agree. Exits with 0 only\nif every check matched; otherwise reports the "
      "first "
      "difference.");
  AddTraceOptions(&options, &choice, "without it all are verified");
  options.Add("json", &json, "", "Print the result as one JSON object.");
  options.Add("threads", &verify.host_threads, "N", "Replay on N processors; 0: all.");
  int exit_status = 0;
  auto parsed = ParseOrExit("verify", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  if (verify.host_threads < 0) return UsageError("verify", "--threads must not be negative");
  const auto directory = TraceOperand("verify", *parsed, choice, &exit_status);
  if (!directory) return exit_status;
  if (const auto trace = TraceReader::Open(*directory);
      trace.ok() && (*trace)->manifest().engine == kSnapshotEngine) {
    return VerifySequence(**trace, json);
  }
  return VerifyRecording(*directory, /*only_this=*/!choice.process.empty(), json, verify);
}

}  // namespace hindsight
