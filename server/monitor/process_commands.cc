#include "server/monitor/process_commands.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "isa/registers.h"
#include "keyframes/inspect/proc_files.h"
#include "server/monitor/monitor_files.h"

namespace hindsight {

void AddProcessCommands(const TraceReader* trace, ProcessView* view, CoreFiles* files,
                        MonitorCommands* commands) {
  commands->Add("maps", "", "the memory map here",
                [view](const MonitorQuestion&) { return MapsText(view->Regions()); });
  commands->Add("core", "FILE",
                "write the process as it is here to FILE, an ELF core for any debugger",
                [=](const MonitorQuestion& question) {
                  const bool extended = trace->manifest().register_layout != kBaseRegisterLayout;
                  return WriteCoreFor(view,
                                      {.thread = question.selected,
                                       .extended_registers = extended,
                                       .interrupt = question.interrupt},
                                      question.arguments, files);
                });
  // The session handles this one; it is here for the list.
  commands->Add("discard", "", "throw away the copy made by writes to memory or registers",
                [](const MonitorQuestion&) { return std::string(); });
}

std::string InfoText(const TraceReader& trace, const std::string& contents) {
  const Manifest& manifest = trace.manifest();
  return absl::StrFormat("trace %s\nprogram %s\narguments %s\nprocess %d\n%s%s",
                         Printable(trace.directory()), Printable(manifest.program),
                         Printable(absl::StrJoin(manifest.arguments, " ")), manifest.pid, contents,
                         manifest.state == TraceState::kComplete ? "" : "it was interrupted\n");
}

}  // namespace hindsight
