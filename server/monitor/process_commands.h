// What a user can ask of a process at one place, whatever it is a place of: a recording's, or a
// sequence of snapshots'.

#ifndef HINDSIGHT_SERVER_MONITOR_PROCESS_COMMANDS_H_
#define HINDSIGHT_SERVER_MONITOR_PROCESS_COMMANDS_H_

#include <string>

#include "keyframes/inspect/core_output.h"
#include "keyframes/inspect/process_view.h"
#include "server/monitor/monitor_commands.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Adds `maps`, `core` and `discard`. Borrows the first three for as long as `commands` is used.
// `files`: where cores go; null: none are written.
void AddProcessCommands(const TraceReader* trace, ProcessView* view, CoreFiles* files,
                        MonitorCommands* commands);

// How `info` begins and ends: the program and its trace, then `contents`, lines of what the trace
// has, and whether it is all there.
std::string InfoText(const TraceReader& trace, const std::string& contents);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_MONITOR_PROCESS_COMMANDS_H_
