// hindsight refine: runs a snapshot's process again, more closely watched.

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/printable.h"
#include "cli/capture/capture_options.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/option_values.h"
#include "cli/running/exit_status.h"
#include "cli/running/run_choice.h"
#include "cli/snapshots/refine_options.h"
#include "cli/snapshots/refine_plan.h"
#include "cli/snapshots/refine_record.h"
#include "cli/snapshots/variables.h"
#include "cli/states/refine_recording.h"
#include "cli/trace_path.h"
#include "keyframes/state/snapshot_list.h"

namespace hindsight {
namespace {

// Without `max`: where it ends is M.
constexpr absl::string_view kCaptureSettings[] = {"level",    "class",        "id",       "attr",
                                                  "trigger",  "on-exception", "skip",     "stride",
                                                  "interval", "every",        "on-signal"};

// What only a sequence of snapshots takes, and only a recording.
constexpr absl::string_view kOfSnapshots[] = {
    "keep",         "tries",  "set",    "edits",    "keep-traces", "force", "max-memory",
    "json",         "config", "level",  "class",    "id",          "attr",  "trigger",
    "on-exception", "skip",   "stride", "interval", "on-signal",   "record"};
constexpr absl::string_view kOfRecordings[] = {"count", "every-instructions", "watch", "max"};

struct RefineValues {
  TextsValue keep, set, at, watch;
  SizeValue max_memory;
};

void AddRefineOptions(Options* options, RefineChoice* choice, RefineValues* values) {
  options->Add("from", &choice->from, "N",
               "The snapshot that is run again; of a recording, a place as gdb's "
               "'hindsight goto' takes it.");
  options->Add("to", &choice->to, "M",
               "The later snapshot up to whose trigger it is run: the same point, signal or "
               "function, as often as it was passed since N; of the timer's snapshots the same "
               "time. Without it to the program's end.");
  options->Add("keep", &values->keep, "VAR",
               "A variable, by its symbol, or ADDRESS,SIZE, that must be at M what it was. May be "
               "given several times.");
  options->Add("tries", &choice->tries, "K", "Run it up to so many times, until all are.");
  options->Add("set", &values->set, "VAR=VALUE",
               "Change a variable before it runs: a number, or hex: and its bytes. May be given "
               "several times.");
  options->Add("edits", &choice->edits, "FILE",
               "Make the changes of this file, which gdb's 'monitor save edits FILE' has written, "
               "before it runs.");
  AddOutputOption(options, &choice->directory, "PROG-refined-N.hindsight");
  options->Add("keep-traces", &choice->keep_traces, "",
               "Keep the traces of tries that were not consistent, as DIR.1, DIR.2, ...");
  options->Add("record", &choice->record, "",
               "Make a full recording of it instead, by the engine emulate, from its next "
               "instruction to M or its end.");
  options->Add("force", &choice->force, "",
               "Run it even if something that it had cannot be restored.");
  options->Add("max-memory", &values->max_memory, "SIZE",
               "As of hindsight snap: what snapshots not yet written may take of memory.");
  options->Add("json", &choice->json, "", "Print the result as one JSON object, at the end.");
  options->Add("quiet", &choice->quiet, "", "Print only errors.");
  options->Add("count", &choice->count, "K", "Of a recording: so many snapshots, evenly spaced.");
  options->Add("every-instructions", &choice->every_instructions, "N",
               "Of a recording: one each N instructions of all threads together.");
  options->Add("max", &choice->max, "N", "Of a recording: no more snapshots than these.");
  options->Add("at", &values->at, "PLACE",
               "One when a thread arrives there: FUNCTION, FILE:FUNCTION, FUNCTION+OFFSET, "
               "SOURCE:LINE or 0xADDRESS. May be given several times.");
  options->Add("watch", &values->watch, "VAR",
               "Of a recording: one after each change of a variable, by its symbol, or "
               "ADDRESS,SIZE. May be given several times.");
}

// The first of `names` that `arguments` have as an option; empty: none.
absl::string_view FirstGiven(Arguments arguments, absl::Span<const absl::string_view> names) {
  for (const std::string& argument : arguments) {
    for (const absl::string_view name : names) {
      const std::string option = absl::StrCat("--", name);
      if (argument == option || absl::StartsWith(argument, option + "=")) return name;
    }
  }
  return "";
}

// By replay: nothing is run.
int RefineRecorded(const TraceReader& trace, const RefineChoice& choice) {
  return RefineRecording(trace, {.from = choice.from,
                                 .to = choice.to,
                                 .directory = choice.directory,
                                 .count = choice.count,
                                 .every_moments = choice.every_instructions,
                                 .every = choice.configuration.every,
                                 .at = choice.at,
                                 .watch = choice.watch,
                                 .max = choice.max,
                                 .quiet = choice.quiet});
}

void PrintLines(absl::string_view before, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) PrintError(absl::StrCat(before, Printable(line)));
}

bool Consistent(const RefineResult& result) { return result.reached && result.differences.empty(); }

std::string Verdict(const RefinePlan& plan, const RefineChoice& choice,
                    const RefineResult& result) {
  if (!plan.options.target.has_value()) return "the program's end";
  if (!result.reached) return absl::StrCat("snapshot ", choice.to, " was not reached");
  if (plan.options.expected.empty()) return absl::StrCat("snapshot ", choice.to, " was reached");
  return result.differences.empty() ? "consistent" : "not consistent";
}

std::string ResultJson(const RefinePlan& plan, const RefineChoice& choice,
                       const RefineResult& result, uint64_t tries) {
  Json json;
  json["result"] = Verdict(plan, choice, result);
  json["consistent"] = Consistent(result);
  json["reached"] = result.reached;
  json["tries"] = tries;
  json["trace"] = JsonText(choice.directory);
  json["snapshots"] = result.snapshots.snapshots;
  if (choice.record) json["instructions"] = result.instructions;
  json["waitStatus"] = result.snapshots.wait_status;
  Json& differences = json["differences"] = Json::array();
  for (const BytesDifference& difference : result.differences) {
    Json& entry = differences.emplace_back();
    entry["name"] = JsonText(difference.name);
    entry["expected"] = BytesText(difference.expected);
    entry["found"] = BytesText(difference.found);
  }
  for (const std::string& line : result.notes.different) {
    json["notAsItWas"].push_back(JsonText(line));
  }
  for (const std::string& line : result.notes.lost) json["lost"].push_back(JsonText(line));
  return JsonDocument(json);
}

// The trace of a try that was not what was wanted.
void PutAway(const RefineChoice& choice, uint64_t attempt) {
  std::error_code error;
  if (choice.keep_traces) {
    std::filesystem::rename(choice.directory, absl::StrCat(choice.directory, ".", attempt), error);
  } else {
    std::filesystem::remove_all(choice.directory, error);
  }
  if (error) PrintError(absl::StrCat(choice.directory, ": ", error.message()));
}

int Refused(const absl::Status& status) {
  if (!absl::IsFailedPrecondition(status)) {
    PrintError(status.message());
    return kExitRecorder;
  }
  for (const absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    PrintError(Printable(line));
  }
  PrintError("the process cannot be restored as it was (--force runs it nevertheless, if it can)");
  return kExitRecorder;
}

void Report(const RefinePlan& plan, const RefineChoice& choice, const RefineResult& result,
            uint64_t attempt) {
  if (choice.quiet) return;
  if (attempt == 1) {
    PrintLines("not as it was: ", result.notes.different);
    PrintLines("lost: ", result.notes.lost);
  }
  for (const BytesDifference& difference : result.differences) {
    PrintError(absl::StrCat(Printable(difference.name), ": ", BytesText(difference.found), ", was ",
                            BytesText(difference.expected)));
  }
  const uint64_t snapshots = result.snapshots.snapshots;
  PrintError(absl::StrCat(choice.directory, ": ", Verdict(plan, choice, result), ", ",
                          choice.record ? absl::StrCat(result.instructions, " instructions, ",
                                                       SizeText(result.snapshots.trace_bytes), ", ")
                                        : "",
                          snapshots, snapshots == 1 ? " snapshot" : " snapshots",
                          choice.tries > 1 ? absl::StrCat(", try ", attempt) : ""));
}

// Of a run to the program's end. Natively it gets there; a recording may end before.
int Ending(const RefineChoice& choice, const RefineResult& result) {
  if (choice.record && !result.snapshots.end_reason.empty()) return kExitRecorder;
  return ExitLike(result.snapshots.wait_status);
}

int Run(const TraceReader& trace, const RefinePlan& plan, const RefineChoice& choice) {
  for (uint64_t attempt = 1;; ++attempt) {
    const absl::StatusOr<RefineResult> result =
        choice.record ? RecordRefinement(trace, plan) : Refine(trace, *plan.from, plan.options);
    if (!result.ok()) return Refused(result.status());
    Report(plan, choice, *result, attempt);
    const bool aimed = plan.options.target.has_value();
    const bool done = !aimed || Consistent(*result);
    if (!done) PutAway(choice, attempt);
    if (!done && attempt < choice.tries) continue;
    if (choice.json && !Print(ResultJson(plan, choice, *result, attempt))) return kExitFailure;
    if (!aimed) return Ending(choice, *result);
    return done ? 0 : kExitFailure;
  }
}

absl::StatusOr<std::unique_ptr<TraceReader>> OpenTrace(const std::vector<std::string>& operands) {
  if (!operands.empty()) return TraceReader::Open(operands[0]);
  const absl::StatusOr<std::string> newest = NewestTrace(".");
  if (!newest.ok()) return newest.status();
  return TraceReader::Open(*newest);
}

// Empty, or what is wrong.
std::string Check(const RefineChoice& choice) {
  if (choice.from.empty()) return "which snapshot is to be run? --from=N";
  if (choice.tries == 0) return "--tries must be at least 1";
  if (choice.tries > 1 && choice.to.empty()) return "--tries needs --to";
  return "";
}

}  // namespace

int RefineCommand(Arguments arguments) {
  RefineChoice choice;
  RefineValues values;
  Options options(
      "refine [SNAPSHOTS] --from=N [--to=M] [options]",
      "Restores snapshot N as a live process and runs it natively, with snapshots taken more "
      "closely (the options\nof hindsight snap), up to where snapshot M was taken. Exits with 0 "
      "if M was reached and all variables given\nwith --keep are what they were, 1 if not; "
      "without --to like the program; with 125 if the process cannot be\nrestored. It runs what "
      "the trace contains: only for traces that you trust. Of a recording it makes snapshots by "
      "replay, between the\nplaces --from and --to.");
  AddRefineOptions(&options, &choice, &values);
  CaptureOptions capture;
  capture.AddTo(&options, kCaptureSettings);
  int exit_status = 0;
  auto parsed = ParseOrExit("refine", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  choice.keep = values.keep.texts;
  choice.set = values.set.texts;
  choice.max_memory = values.max_memory.bytes;
  choice.watch = values.watch.texts;
  if (parsed->operands.size() > 1) return UsageError("refine", "which trace? there are several");
  absl::StatusOr<CaptureConfiguration> configuration = capture.Read();
  if (!configuration.ok()) return UsageError("refine", configuration.status().message());
  choice.captures = capture.given() || !values.at.texts.empty();
  choice.configuration = *std::move(configuration);
  choice.at = choice.configuration.functions = values.at.texts;
  const auto trace = OpenTrace(parsed->operands);
  if (!trace.ok()) return Failure(trace.status());
  if (choice.directory.empty()) {
    choice.directory = NewTracePath(".", (*trace)->manifest().program + "-refined");
  }
  const bool recording = !IsSnapshotTrace(**trace);
  const absl::string_view other =
      recording ? FirstGiven(arguments, kOfSnapshots) : FirstGiven(arguments, kOfRecordings);
  if (!other.empty()) {
    return UsageError("refine",
                      absl::StrCat("--", other, " is not for ",
                                   recording ? "a recording" : "a sequence of snapshots"));
  }
  if (recording) return RefineRecorded(**trace, choice);
  const std::string wrong = Check(choice);
  if (!wrong.empty()) return UsageError("refine", wrong);
  std::error_code error;
  if (std::filesystem::exists(choice.directory, error) &&
      !std::filesystem::is_empty(choice.directory, error)) {
    PrintError(absl::StrCat(choice.directory, ": exists and is not empty"));
    return kExitRecorder;
  }
  const absl::StatusOr<RefinePlan> plan = PlanRefinement(**trace, choice);
  if (!plan.ok()) return Failure(plan.status());
  return Run(**trace, *plan, choice);
}

}  // namespace hindsight
