// hindsight serve: lets debuggers connect to a trace.

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/gdb_command_file.h"
#include "cli/serving.h"
#include "cli/socket_janitor.h"
#include "cli/states/core_file_maker.h"
#include "server/session/session.h"
#include "server/target/target.h"
#include "server/transport.h"

namespace hindsight {
namespace {

struct ServeOptions {
  std::string listen = "127.0.0.1:0";
  std::string unix_path;
  bool stdio = false;
  std::string token_file;
};

constexpr size_t kLeastTokenBytes = 16;

// Where clients come from. All of it is opened before this process is confined.
struct Entrance {
  std::unique_ptr<Connection> stdio;
  std::optional<Listener> listener;
  std::optional<SocketJanitor> janitor;
  std::optional<CoreFileMaker> files;
  std::optional<PeerUsers> users;
  std::string token;         // empty: other users' clients are refused
  std::string gdb_commands;  // the file that a gdb is to load; empty: it could not be installed
};

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  std::ifstream file(path);
  std::string token;
  if (file >> token && token.size() >= kLeastTokenBytes) return token;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": a token of at least ", kLeastTokenBytes, " characters is expected"));
}

absl::StatusOr<std::string> NewToken() {
  char bytes[16];
  if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
    return absl::ErrnoToStatus(errno, "getrandom");
  }
  return absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes)));
}

absl::StatusOr<Entrance> OpenEntrance(const ServeOptions& options) {
  Entrance entrance;
  ASSIGN_OR_RETURN(CoreFileMaker files, CoreFileMaker::Start(CoreFileMaker::Names::kUntrusted));
  entrance.files.emplace(std::move(files));
  if (options.stdio) {
    ASSIGN_OR_RETURN(entrance.stdio, Connection::FromStdio());
    return entrance;
  }
  ASSIGN_OR_RETURN(Listener listener, options.unix_path.empty()
                                          ? Listener::Tcp(options.listen)
                                          : Listener::Unix(options.unix_path));
  entrance.listener.emplace(std::move(listener));
  entrance.users = PeerUsers::Open();
  // Without it everything works except Hindsight's own commands.
  entrance.gdb_commands = InstallGdbCommands().value_or("");
  if (!options.token_file.empty()) {
    ASSIGN_OR_RETURN(entrance.token, ReadToken(options.token_file));
  } else if (!entrance.listener->is_local() ||
             (options.unix_path.empty() && !entrance.users->knows_tcp())) {
    ASSIGN_OR_RETURN(entrance.token, NewToken());
  }
  if (!options.unix_path.empty()) {
    ASSIGN_OR_RETURN(SocketJanitor janitor, SocketJanitor::Start(options.unix_path));
    entrance.janitor.emplace(std::move(janitor));
  }
  return entrance;
}

// Has the socket removed when a signal ends this process, before it ends. Requires: no other
// thread that could take the signal.
void RemoveSocketWhenKilled(const SocketJanitor* janitor) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, janitor] {
    int signal = 0;
    sigwait(&signals, &signal);
    janitor->Finish();
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    kill(getpid(), signal);
  }).detach();
}

std::string TokenText(const Entrance& entrance, Target& target) {
  return absl::StrCat("from elsewhere: gdb -ex 'target extended-remote ",
                      entrance.listener->address(), "' -ex 'monitor token ", entrance.token,
                      "' -ex 'attach ", target.current_thread().pid, "'\n");
}

std::string CommandsText(const Entrance& entrance) {
  if (entrance.gdb_commands.empty()) return "";
  return absl::StrCat("with the commands of 'help hindsight': gdb -x ", entrance.gdb_commands,
                      " -ex 'target extended-remote ", entrance.listener->address(), "'\n");
}

int ServeStdio(Connection* connection, Target* target) {
  absl::StatusOr<SessionEnd> end = Session(target, connection).Serve();
  return end.ok() ? 0 : Failure(end.status());
}

int ServeSocket(Entrance* entrance, bool show_token, Target* target) {
  Listener* const listener = &*entrance->listener;
  // For people and for scripts, which read the first line up to its end.
  if (!Print(absl::StrCat("listening on ", listener->address(), "\nconnect with: gdb -ex 'target ",
                          "remote ", listener->address(), "'\n", CommandsText(*entrance),
                          show_token ? TokenText(*entrance, *target) : "")) ||
      std::fflush(stdout) != 0) {
    return kExitFailure;
  }
  return Failure(ServeClients(listener, *std::move(entrance->users), entrance->token, target,
                              &*entrance->files));
}

int Serve(const Options::Parsed& parsed, const ServeOptions& options, const TraceChoice& choice) {
  absl::StatusOr<Entrance> entrance = OpenEntrance(options);
  if (!entrance.ok()) return Failure(entrance.status());
  int exit_status = 0;
  auto trace = OpenTraceOperand("serve", parsed, choice, &exit_status);
  if (trace == nullptr) return exit_status;
  if (entrance->janitor) RemoveSocketWhenKilled(&*entrance->janitor);
  if (choice.process.empty()) PrintOtherProcesses(*trace);
  WarnOfMissingFeatures(*trace);
  absl::StatusOr<std::unique_ptr<Target>> target = OpenTarget(trace.get(), &*entrance->files);
  if (!target.ok()) return Failure(target.status());
  if (options.stdio) return ServeStdio(entrance->stdio.get(), target->get());
  const bool show_token = !entrance->token.empty() && options.token_file.empty();
  return ServeSocket(&*entrance, show_token, target->get());
}

}  // namespace

int ServeCommand(Arguments arguments) {
  ServeOptions serve;
  TraceChoice choice;
  Options options("serve [TRACE] [options]",
                  "Serves a recording to debuggers that speak gdb's remote protocol, one at a "
                  "time, until ended\n(Ctrl-C). Prints the address to connect to, and the file "
                  "hindsight_gdb.py that brings the 'hindsight'\ncommands to gdb.\n\n"
                  "VS Code, C/C++ extension (cppdbg), in launch.json:\n"
                  "  { \"name\": \"Hindsight\", \"type\": \"cppdbg\", \"request\": \"launch\", "
                  "\"MIMode\": \"gdb\",\n"
                  "    \"program\": \"${workspaceFolder}/a.out\", \"cwd\": "
                  "\"${workspaceFolder}\",\n"
                  "    \"miDebuggerServerAddress\": \"127.0.0.1:PORT\", \"stopAtConnect\": true,\n"
                  "    \"setupCommands\": [ { \"text\": \"source .../hindsight_gdb.py\" } ] }\n"
                  "and '-exec reverse-continue' and the like in its debug console.");
  choice.prefers_crashed = true;
  AddTraceOptions(&options, &choice,
                  "without it the one that crashed, or the first unless exactly one did");
  options.Add("listen", &serve.listen, "HOST:PORT",
              "Where to listen; port 0 is any free one. Processes of this user are served; others "
              "must know a token, which is printed if the address is not this machine's alone.");
  options.Add("token-file", &serve.token_file, "FILE",
              "The token, for clients of other users and machines: in gdb, 'target extended-remote "
              "HOST:PORT', 'monitor token TOKEN', 'attach PID'.");
  options.Add("unix", &serve.unix_path, "PATH",
              "Listen on a Unix socket instead, which only this user may connect to.");
  options.Add("stdio", &serve.stdio, "",
              "Serve one client on standard input and output: in gdb, target remote | hindsight "
              "serve --stdio TRACE");
  int exit_status = 0;
  auto parsed = ParseOrExit("serve", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  if (serve.stdio && !serve.unix_path.empty()) {
    return UsageError("serve", "--stdio and --unix exclude each other");
  }
  return Serve(*parsed, serve, choice);
}

}  // namespace hindsight
