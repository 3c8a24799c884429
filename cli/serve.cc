// hindsight serve: lets debuggers connect to a trace.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/serving.h"
#include "server/replay_target.h"
#include "server/session.h"
#include "server/transport.h"

namespace hindsight {
namespace {

struct ServeOptions {
  std::string listen = "127.0.0.1:0";
  std::string unix_path;
  bool stdio = false;
};

// Removes the socket at `path` when a signal ends this process. Requires: no other thread yet.
void RemoveSocketWhenKilled(const std::string& path) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, path] {
    int signal = 0;
    sigwait(&signals, &signal);
    unlink(path.c_str());
    std::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    kill(getpid(), signal);
  }).detach();
}

int ServeStdio(Target* target) {
  absl::StatusOr<std::unique_ptr<Connection>> connection = Connection::FromStdio();
  if (!connection.ok()) return Failure(connection.status());
  absl::StatusOr<SessionEnd> end = Session(target, connection->get()).Serve();
  return end.ok() ? 0 : Failure(end.status());
}

int ServeSocket(const ServeOptions& options, const TraceReader& trace, Target* target) {
  absl::StatusOr<Listener> listener =
      options.unix_path.empty() ? Listener::Tcp(options.listen) : Listener::Unix(options.unix_path);
  if (!listener.ok()) return Failure(listener.status());
  // For people and for scripts, which read the first line up to its end.
  if (!Print(absl::StrCat("listening on ", listener->address(), "\nconnect with: gdb -ex 'target ",
                          "remote ", listener->address(), "'\n")) ||
      std::fflush(stdout) != 0) {
    return kExitFailure;
  }
  return Failure(ServeClients(&*listener, target));
}

}  // namespace

int ServeCommand(Arguments arguments) {
  ServeOptions serve;
  std::string process;
  Options options("serve [TRACE] [options]",
                  "Serves a recording to debuggers that speak gdb's remote protocol, one at a "
                  "time, until ended\n(Ctrl-C). Prints the address to connect to.");
  AddProcessOption(&options, &process);
  options.Add("listen", &serve.listen, "HOST:PORT",
              "Where to listen; port 0 is any free one. Whoever can connect can read everything in "
              "the recording.");
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
  auto trace = OpenTraceOperand("serve", *parsed, process, &exit_status);
  if (trace == nullptr) return exit_status;
  if (process.empty()) TellOfOtherProcesses(*trace);
  TellOfMissingFeatures(*trace);
  if (!serve.unix_path.empty()) RemoveSocketWhenKilled(serve.unix_path);
  absl::StatusOr<std::unique_ptr<ReplayTarget>> target = ReplayTarget::Open(trace.get());
  if (!target.ok()) return Failure(target.status());
  if (serve.stdio) return ServeStdio(target->get());
  return ServeSocket(serve, *trace, target->get());
}

}  // namespace hindsight
