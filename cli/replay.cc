// hindsight replay: a server and gdb together.

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "cli/command.h"
#include "cli/gdb_process.h"
#include "cli/serving.h"
#include "cli/states/core_file_maker.h"
#include "server/gdb_commands.h"
#include "server/target/target.h"
#include "server/transport.h"

namespace hindsight {
namespace {

// gdb recognizes a Python file by its suffix.
constexpr char kCommandFile[] = "hindsight_gdb.py";

// What the server's process needs to know.
struct ReplayRequest {
  const Options::Parsed& parsed;
  const TraceChoice& choice;
  pid_t parent;
};

// In the server's process: confined, it serves until it is killed. Writes a byte to `ready` when
// it can be connected to. Returns the exit status if that did not work.
int ServeGdb(const ReplayRequest& request, Listener* listener, UniqueFd ready) {
  // Ctrl-C is gdb's, and what ends this process's parent ends it as well.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGQUIT, SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != request.parent) return kExitFailure;
  PeerUsers users = PeerUsers::Open();
  absl::StatusOr<CoreFileMaker> files = CoreFileMaker::Start(CoreFileMaker::Names::kUntrusted);
  if (!files.ok()) return Failure(files.status());
  int exit_status = 0;
  auto trace = OpenTraceOperand("replay", request.parsed, request.choice, &exit_status);
  if (trace == nullptr) return exit_status;
  if (request.choice.process.empty()) PrintOtherProcesses(*trace);
  WarnOfMissingFeatures(*trace);
  absl::StatusOr<std::unique_ptr<Target>> target = OpenTarget(trace.get(), &*files);
  if (!target.ok()) return Failure(target.status());
  if (write(ready.get(), "", 1) != 1) return kExitFailure;
  return Failure(ServeClients(listener, std::move(users), /*token=*/"", target->get(), &*files));
}

// The server as a separate process: this one starts gdb, which a confined process cannot. Killed
// and waited for by the destructor. Neither copyable nor movable.
class ServerProcess {
 public:
  ServerProcess() = default;
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    if (pid_ > 0) End(SIGKILL);
  }

  // Requires: no other thread runs. Waits until the server can be connected to; *exit_status is its
  // own if it ends instead.
  absl::StatusOr<bool> Start(const Options::Parsed& parsed, const TraceChoice& choice,
                             Listener* listener, int* exit_status) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
    UniqueFd read_end(ends[0]), write_end(ends[1]);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) return absl::ErrnoToStatus(errno, "fork");
    if (pid_ == 0) {
      read_end.Reset();
      const int status = ServeGdb({parsed, choice, parent}, listener, std::move(write_end));
      std::fflush(stdout);
      std::_Exit(status);
    }
    write_end.Reset();
    char byte;
    if (read(read_end.get(), &byte, 1) == 1) return true;
    *exit_status = End(0);
    return false;
  }

 private:
  int End(int signal) {
    if (signal != 0) kill(pid_, signal);
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailure;
  }

  pid_t pid_ = -1;
};

// Runs gdb on a server until gdb ends. Returns the exit status.
absl::StatusOr<int> RunGdb(const Options::Parsed& parsed, const TraceChoice& choice,
                           const std::string& gdb) {
  ASSIGN_OR_RETURN(TemporaryDirectory directory, TemporaryDirectory::Create());
  ASSIGN_OR_RETURN(std::string commands, directory.WriteFile(kCommandFile, GdbCommands()));
  ASSIGN_OR_RETURN(Listener listener, Listener::Unix(absl::StrCat(directory.path(), "/gdb")));
  ServerProcess server;
  int exit_status = 0;
  ASSIGN_OR_RETURN(const bool serving, server.Start(parsed, choice, &listener, &exit_status));
  if (!serving) return exit_status;
  BlockChildSignals();
  std::vector<std::string> arguments = {
      gdb,      "-q",  "-x",
      commands, "-ex", absl::StrCat("target extended-remote ", listener.address())};
  arguments.insert(arguments.end(), parsed.rest.begin(), parsed.rest.end());
  return RunChild(arguments);
}

}  // namespace

int ReplayCommand(Arguments arguments) {
  std::string gdb = "gdb";
  TraceChoice choice;
  Options options("replay [TRACE] [options] [-- GDB ARGS...]",
                  "Starts gdb at the beginning of a recording. There 'continue' and "
                  "'reverse-continue' and all their\nrelatives work, and 'run' and 'start' go back "
                  "to the beginning; 'hindsight' lists further commands.\nARGS are passed to "
                  "gdb.");
  choice.prefers_crashed = true;
  AddTraceOptions(&options, &choice,
                  "without it the one that crashed, or the first unless exactly one did");
  options.Add("gdb", &gdb, "PROGRAM", "The gdb to start.");
  int exit_status = 0;
  auto parsed = ParseOrExit("replay", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  const absl::StatusOr<int> status = RunGdb(*parsed, choice, gdb);
  return status.ok() ? *status : Failure(status.status());
}

}  // namespace hindsight
