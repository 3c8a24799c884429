#include "cli/gdb_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

// sun_path holds 107 bytes; a longer $TMPDIR cannot hold a socket.
constexpr size_t kMaxDirectoryBytes = 80;

sigset_t ChildSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGCHLD, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

absl::Status ErrnoError(absl::string_view what, int error) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(error)));
}

// In the child: never returns.
void Execute(const std::vector<std::string>& arguments, int error_pipe) {
  for (int signal : {SIGINT, SIGQUIT, SIGPIPE}) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  int error = errno;
  if (write(error_pipe, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

// Waits until `child` has ended, and passes on signals that ask it to end.
int WaitFor(pid_t child) {
  sigset_t signals = ChildSignals();
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGCHLD) kill(child, signal);
  }
}

}  // namespace

absl::StatusOr<TemporaryDirectory> TemporaryDirectory::Create() {
  const char* parent = std::getenv("TMPDIR");
  if (parent == nullptr || *parent == '\0' || std::strlen(parent) > kMaxDirectoryBytes) {
    parent = "/tmp";
  }
  std::string path = absl::StrCat(parent, "/hindsight-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return ErrnoError(path, errno);
  return TemporaryDirectory(std::move(path));
}

TemporaryDirectory::~TemporaryDirectory() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

absl::StatusOr<std::string> TemporaryDirectory::WriteFile(absl::string_view name,
                                                          absl::string_view contents) {
  std::string path = absl::StrCat(path_, "/", name);
  std::ofstream file(path, std::ios::binary);
  file.write(contents.data(), contents.size());
  file.close();
  if (!file) return absl::InternalError(absl::StrCat(path, ": cannot be written"));
  return path;
}

void BlockChildSignals() {
  sigset_t signals = ChildSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

absl::StatusOr<int> RunChild(const std::vector<std::string>& arguments) {
  // The child's end of the pipe closes when it executes, or carries the reason why it did not.
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError("pipe", errno);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  // A terminal sends these to the whole foreground group; not for this process.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGQUIT, SIG_IGN);
  pid_t child = fork();
  if (child < 0) return ErrnoError("fork", errno);
  if (child == 0) Execute(arguments, write_end.get());
  write_end.Reset();
  int error = 0;
  if (read(read_end.get(), &error, sizeof(error)) == sizeof(error)) {
    WaitFor(child);
    return absl::NotFoundError(absl::StrCat(arguments[0], ": ", strerror(error)));
  }
  return WaitFor(child);
}

}  // namespace hindsight
