// The `hindsight` command: picks the subcommand.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/command.h"

namespace hindsight {
namespace {

constexpr char kVersion[] = "0.1";

struct Command {
  const char* name;
  const char* synopsis;
  const char* summary;
  int (*run)(Arguments);
};

constexpr Command kCommands[] = {
    {"record", "record [-o DIR] [options] -- PROG ARGS... | --attach PID",
     "Record one run of a program, with all its threads and processes.", RecordCommand},
    {"snap", "snap [-o DIR] [--every=TIME] [options] -- PROG ARGS... | --attach PID",
     "Run a program natively and take snapshots of it at chosen points.", SnapCommand},
    {"replay", "replay [TRACE] [-p PID|NAME] [-- GDB ARGS...]",
     "Walk a recording in gdb, forward and backward.", ReplayCommand},
    {"serve", "serve TRACE [-p PID|NAME] [--listen=HOST:PORT | --unix=PATH | --stdio]",
     "Serve a recording to debuggers.", ServeCommand},
    {"info", "info [TRACE] [--threads] [--json]", "Show what a recording holds.", InfoCommand},
    {"verify", "verify [TRACE] [-p PID|NAME]", "Replay all of a recording and check it.",
     VerifyCommand},
    {"core", "core [TRACE] PLACE|N -o FILE [-p PID|NAME]",
     "Write the process at a place of a recording as an ELF core file.", CoreCommand},
    {"diff", "diff [TRACE] N M [--json]", "Show what differs between two snapshots.", DiffCommand},
    {"refine", "refine [TRACE] --from=N [--to=M] [--keep=VAR...] [options]",
     "Run a snapshot's process again, more closely watched.", RefineCommand},
    {"dump", "dump [TRACE] [-p PID|NAME] [--thread=T] [--json]",
     "Print the records of a recording.", DumpCommand},
};

std::string HelpText() {
  std::string out =
      "Usage: hindsight COMMAND ...\n\n"
      "Records a program once; replays it exactly, forward and backward, in any gdb front end.\n\n"
      "Commands:\n";
  for (const Command& command : kCommands) {
    absl::StrAppend(&out, "  ", command.synopsis, "\n      ", command.summary, "\n");
  }
  absl::StrAppend(&out,
                  "\n'hindsight COMMAND --help' shows a command's options, 'hindsight version' "
                  "the version.\nWithout TRACE the newest *.hindsight in the current directory is "
                  "taken.\n");
  return out;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    PrintError("which command? (see 'hindsight --help')");
    return kExitUsage;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    return Print(HelpText()) ? 0 : kExitFailure;
  }
  if (name == "version" && arguments.size() > 1) {
    PrintError("version: takes no arguments");
    return kExitUsage;
  }
  if (name == "--version" || name == "version") {
    return Print(absl::StrCat("hindsight ", kVersion, "\n")) ? 0 : 1;
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(Arguments(arguments).subspan(1));
  }
  PrintError(absl::StrCat("unknown ", name[0] == '-' ? "option " : "command ", name,
                          " (see 'hindsight --help')"));
  return kExitUsage;
}

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) {
  int exit_status = hindsight::Main(std::vector<std::string>(argv + 1, argv + argc));
  if (std::fflush(stdout) != 0 && exit_status == 0) return hindsight::kExitFailure;
  return exit_status;
}
