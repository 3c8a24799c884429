// hindsight verify: replays all of a trace and checks it.

#include "keyframes/verify.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/progress_line.h"

namespace hindsight {
namespace {

std::string VerifyJson(const TraceReader& trace, const VerifyResult& result) {
  JsonWriter json;
  json.BeginObject().Key("trace").String(trace.directory()).Key("exact").Bool(result.exact());
  if (!result.exact()) json.Key("difference").String(result.difference.message());
  json.Key("segments").Uint(result.segments).Key("segmentsFailed").Uint(result.segments_failed);
  json.Key("states").Uint(result.states).Key("checks").Uint(result.checks);
  json.Key("seconds").Number(result.seconds).EndObject();
  return json.text() + "\n";
}

std::string VerifyText(const VerifyResult& result) {
  std::string totals =
      absl::StrFormat("%d instructions in %d segments, %d checks, %.2f s", result.states,
                      result.segments, result.checks, result.seconds);
  if (result.exact()) return absl::StrCat("exact: ", totals, "\n");
  return absl::StrCat("NOT exact: ", totals, "; ", result.segments_failed,
                      " segments differ, first: ", result.difference.message(), "\n");
}

}  // namespace

int VerifyCommand(Arguments arguments) {
  bool json = false;
  VerifyOptions verify;
  Options options("verify [TRACE] [options]",
                  "Replays all of a recording and compares with what was recorded. Exits with 0 "
                  "only if every check\nmatched; else tells where the first difference is.");
  options.Add("json", &json, "", "Print the result as one JSON object.");
  options.Add("threads", &verify.host_threads, "N", "Replay on N processors; 0: all.");
  int exit_status = 0;
  auto parsed = ParseOrExit("verify", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  if (verify.host_threads < 0) return UsageError("verify", "--threads must not be negative");
  auto trace = OpenTraceOperand("verify", *parsed, &exit_status);
  if (trace == nullptr) return exit_status;
  ProgressLine progress;
  verify.progress = [&progress](const VerifyProgress& now) {
    progress.Show(absl::StrFormat("verifying: %d of %d segments, %.1f M instructions",
                                  now.segments_done, now.segments_total, now.states_done / 1e6));
  };
  absl::StatusOr<VerifyResult> result = Verify(*trace, verify);
  progress.Clear();
  if (!result.ok()) return Failure(result.status());
  if (!Print(json ? VerifyJson(*trace, *result) : VerifyText(*result))) return kExitFailure;
  return result->exact() ? 0 : kExitFailure;
}

}  // namespace hindsight
