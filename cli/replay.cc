// hindsight replay: a server and gdb together.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/gdb_process.h"
#include "cli/serving.h"
#include "server/gdb_commands.h"
#include "server/replay_target.h"
#include "server/transport.h"

namespace hindsight {
namespace {

// gdb's file name is told by its suffix to be Python.
constexpr char kCommandFile[] = "hindsight_gdb.py";

// Runs `gdb` on a server of this process until gdb ends.
absl::StatusOr<int> RunGdb(const TraceReader* trace, const std::string& gdb,
                           const std::vector<std::string>& gdb_arguments) {
  ASSIGN_OR_RETURN(TemporaryDirectory directory, TemporaryDirectory::Create());
  ASSIGN_OR_RETURN(std::string commands, directory.WriteFile(kCommandFile, GdbCommands()));
  ASSIGN_OR_RETURN(std::unique_ptr<ReplayTarget> target, ReplayTarget::Open(trace));
  ASSIGN_OR_RETURN(Listener listener, Listener::Unix(absl::StrCat(directory.path(), "/gdb")));
  std::vector<std::string> arguments = {
      gdb, "-q", "-x", commands, "-ex", absl::StrCat("target remote ", listener.address())};
  arguments.insert(arguments.end(), gdb_arguments.begin(), gdb_arguments.end());
  // Ends with the process: what it borrows lives as long, see ReplayCommand.
  Listener* borrowed_listener = new Listener(std::move(listener));
  Target* borrowed_target = target.release();
  std::thread([borrowed_listener, borrowed_target] {
    absl::Status status = ServeClients(borrowed_listener, borrowed_target);
    PrintError(status.message());
  }).detach();
  return RunChild(arguments);
}

}  // namespace

int ReplayCommand(Arguments arguments) {
  std::string gdb = "gdb";
  std::string process;
  Options options("replay [TRACE] [options] [-- GDB ARGS...]",
                  "Starts gdb at the beginning of a recording. There 'continue' and "
                  "'reverse-continue' and all their\nrelatives work; 'monitor help' and 'help "
                  "hindsight' tell what else does. ARGS are given to gdb.");
  AddProcessOption(&options, &process);
  options.Add("gdb", &gdb, "PROGRAM", "The gdb to start.");
  int exit_status = 0;
  auto parsed = ParseOrExit("replay", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  auto trace = OpenTraceOperand("replay", *parsed, process, &exit_status);
  if (trace == nullptr) return exit_status;
  if (process.empty()) TellOfOtherProcesses(*trace);
  TellOfMissingFeatures(*trace);
  BlockChildSignals();
  absl::StatusOr<int> status = RunGdb(trace.get(), gdb, parsed->rest);
  exit_status = status.ok() ? *status : Failure(status.status());
  // The server's thread may be in the middle of something: end without the destructors it would
  // notice.
  std::fflush(stdout);
  std::_Exit(exit_status);
}

}  // namespace hindsight
