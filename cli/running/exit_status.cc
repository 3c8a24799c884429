#include "cli/running/exit_status.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>

#include "cli/command.h"

namespace hindsight {
namespace {

// Kills this process with the signal that killed the program, so that the caller sees the same.
void DieBy(int signal) {
  rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);  // the program's core is the one that counts
  std::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
}

}  // namespace

int FailureStatus(const absl::Status& status) {
  PrintError(status.message());
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kInvalidArgument:
      return kExitNotExecutable;
    default:
      return kExitRecorder;
  }
}

int ExitLike(int wait_status) {
  if (WIFEXITED(wait_status)) return WEXITSTATUS(wait_status);
  std::fflush(nullptr);
  DieBy(WTERMSIG(wait_status));
  return 128 + WTERMSIG(wait_status);
}

}  // namespace hindsight
