#include "recorder/ptrace/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "recorder/ptrace/wait_status.h"

namespace hindsight {
namespace {

struct Pipe {
  UniqueFd read_end, write_end;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("pipe: ", strerror(errno)));
  }
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// In the child: only async-signal-safe calls, since other threads may have held locks.
[[noreturn]] void ExecWhenToldTo(int go_fd, int error_fd, unsigned long persona_bits,
                                 const char* path, char** argv) {
  char byte;
  if (read(go_fd, &byte, 1) != 1) _exit(127);
  const int persona = personality(0xffffffff);
  if (persona != -1) personality(persona | persona_bits);
  execve(path, argv, environ);
  const int error = errno;
  [[maybe_unused]] ssize_t written = write(error_fd, &error, sizeof(error));
  _exit(127);
}

absl::Status PtraceError(const char* what) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": ", strerror(errno), " (is ptrace allowed here?)"));
}

// Brings the seized child from before its execve to the stop at the end of it.
absl::Status RunToEndOfExec(pid_t pid, const std::string& path, int error_fd) {
  bool in_new_image = false;
  while (true) {
    const std::optional<WaitStatus> status = WaitForThread(pid);
    if (!status.has_value()) return PtraceError("waitpid");
    if (!status->stopped()) {
      int error = 0;
      const bool known = read(error_fd, &error, sizeof(error)) == sizeof(error);
      const std::string text =
          absl::StrCat(path, ": ", known ? strerror(error) : "died before it started");
      return error == ENOENT ? absl::NotFoundError(text) : absl::PermissionDeniedError(text);
    }
    if (status->is_exec()) {
      in_new_image = true;
    } else if (status->kind == WaitStatus::Kind::kSyscall && in_new_image) {
      return absl::OkStatus();
    }
    const auto request = in_new_image ? PTRACE_SYSCALL : PTRACE_CONT;
    if (ptrace(request, pid, nullptr, status->signal_to_deliver()) != 0 && errno != ESRCH) {
      return PtraceError("ptrace");
    }
  }
}

}  // namespace

absl::StatusOr<pid_t> LaunchTraced(const ExecCommand& command, AddressLayout layout) {
  ASSIGN_OR_RETURN(Pipe go, MakePipe());
  ASSIGN_OR_RETURN(Pipe error, MakePipe());
  std::vector<char*> argv;
  for (const std::string& argument : command.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);

  const pid_t pid = fork();
  if (pid < 0) return absl::ResourceExhaustedError(absl::StrCat("fork: ", strerror(errno)));
  if (pid == 0) {
    const unsigned long persona_bits = layout == AddressLayout::kUpward
                                           ? ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT
                                           : ADDR_NO_RANDOMIZE;
    ExecWhenToldTo(go.read_end.get(), error.write_end.get(), persona_bits, command.path.c_str(),
                   argv.data());
  }
  error.write_end.Reset();

  absl::Status status;
  const uintptr_t options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC |
                            PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
  if (ptrace(PTRACE_SEIZE, pid, nullptr, options) != 0) {
    status = PtraceError("PTRACE_SEIZE");
  } else if (write(go.write_end.get(), "g", 1) != 1) {
    status = PtraceError("write");
  } else {
    status = RunToEndOfExec(pid, command.path, error.read_end.get());
  }
  if (!status.ok()) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, __WALL);  // ECHILD if it has been reaped
    return status;
  }
  return pid;
}

}  // namespace hindsight
