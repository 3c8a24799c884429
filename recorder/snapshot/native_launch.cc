#include "recorder/snapshot/native_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The caller's, without those that `added` has.
std::vector<std::string> JoinEnvironment(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const absl::string_view text(*variable);
    bool replaced = false;
    for (const std::string& own : added) {
      replaced |= absl::StartsWith(text, own.substr(0, own.find('=') + 1));
    }
    if (!replaced) all.emplace_back(text);
  }
  return all;
}

// In the child: only async-signal-safe calls.
[[noreturn]] void ExecWhenToldTo(int go_fd, int error_fd, const sigset_t& mask, const char* path,
                                 char** argv, char** environment) {
  char byte;
  if (read(go_fd, &byte, 1) != 1) _exit(127);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execve(path, argv, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(error_fd, &error, sizeof(error));
  _exit(127);
}

}  // namespace

absl::StatusOr<pid_t> LaunchNative(const ExecCommand& command,
                                   const std::vector<std::string>& environment,
                                   const sigset_t& mask,
                                   const std::function<void(pid_t)>& before_exec) {
  int go[2], error[2];
  if (pipe2(go, O_CLOEXEC) != 0) return absl::ResourceExhaustedError("no pipe can be made");
  UniqueFd go_read(go[0]), go_write(go[1]);
  if (pipe2(error, O_CLOEXEC) != 0) return absl::ResourceExhaustedError("no pipe can be made");
  UniqueFd error_read(error[0]), error_write(error[1]);
  const std::vector<std::string> joined = JoinEnvironment(environment);
  std::vector<char*> variables = Pointers(joined);
  std::vector<char*> argv = Pointers(command.arguments);
  const pid_t pid = fork();
  if (pid < 0) return absl::ResourceExhaustedError(absl::StrCat("fork: ", strerror(errno)));
  if (pid == 0) {
    ExecWhenToldTo(go[0], error[1], mask, command.path.c_str(), argv.data(), variables.data());
  }
  error_write.Reset();
  before_exec(pid);
  int failure = 0;
  if (write(go_write.get(), "g", 1) == 1 &&
      read(error_read.get(), &failure, sizeof(failure)) != sizeof(failure)) {
    return pid;
  }
  waitpid(pid, nullptr, 0);
  const std::string text = absl::StrCat(command.path, ": ", strerror(failure));
  return failure == ENOENT ? absl::NotFoundError(text) : absl::PermissionDeniedError(text);
}

}  // namespace hindsight
