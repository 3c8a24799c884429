// hindsight info: what a recording holds.

#include "cli/info/info.h"

#include "cli/command.h"

namespace hindsight {

int InfoCommand(Arguments arguments) {
  bool json = false;
  bool threads = false;
  TraceChoice choice;
  Options options("info [TRACE] [options]",
                  "Shows what a recording holds: program, state, processes, threads, instructions, "
                  "events, keyframes,\nmodules, sizes.");
  AddTraceOptions(&options, &choice);
  options.Add("threads", &threads, "",
              "Show each thread too: its name, the positions of its start and end, instructions, "
              "slices, time it ran, the CPUs it ran on and how often it moved.");
  options.Add("json", &json, "", "As one JSON object.");
  int exit_status = 0;
  auto parsed = ParseOrExit("info", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  const auto directory = TraceOperand("info", *parsed, choice, &exit_status);
  if (!directory) return exit_status;
  absl::StatusOr<RecordingInfo> info = ReadRecording(*directory, /*positions=*/threads);
  if (!info.ok()) return Failure(info.status());
  for (const std::string& warning : info->warnings) PrintError(absl::StrCat("warning: ", warning));
  return Print(json ? InfoJson(*info, threads) : InfoText(*info, threads)) ? 0 : kExitFailure;
}

}  // namespace hindsight
