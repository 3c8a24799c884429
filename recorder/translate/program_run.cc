#include "recorder/translate/program_run.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/translate/injection.h"
#include "recorder/translate/running_services.h"

namespace hindsight {
namespace {

// By pidfd: waitpid would take the stops of a process that executes a program, and is held by
// another thread meanwhile.
int WaitForEnd(pid_t process) {
  const UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  pollfd entry = {.fd = pidfd.get(), .events = POLLIN};
  while (poll(&entry, 1, -1) < 0 && errno == EINTR) {
  }
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

absl::StatusOr<ProgramRunResult> RunProgramTranslated(const ExecCommand& command,
                                                      const ProgramRunOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Tracee> tracee, Tracee::Launch(command, AddressLayout::kUpward));
  const pid_t process = tracee->process();
  ASSIGN_OR_RETURN(MemoryFile file, Inject({.translate = options.translate}, tracee.get()));
  RunningServices services;
  const auto service = std::make_shared<ProcessService>(
      process, std::move(file), options.translation,
      [&services](std::unique_ptr<ProcessService> child) { services.Start(std::move(child)); });
  services.Start(service);
  ProgramRunResult result = {.wait_status = WaitForEnd(process)};
  service->RequestStop();
  services.JoinAll();
  const ControlBlock& control = service->control();
  if (control.boot_state != static_cast<uint32_t>(BootState::kRunning)) {
    return absl::UnavailableError(
        absl::StrCat("the agent could not start: ", strerror(control.boot_error)));
  }
  result.counts = service->counts();
  return result;
}

}  // namespace hindsight
