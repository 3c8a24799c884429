// Starts a program that nobody traces.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_NATIVE_LAUNCH_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_NATIVE_LAUNCH_H_

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/process/program_lookup.h"

namespace hindsight {

// The program's pid, a child of this process, once it executes its program. Its environment is the
// caller's and `environment` (NAME=value); its signal mask is `mask`; the rest is the caller's.
// `before_exec` is called with its pid while it waits. Errors: kNotFound, kPermissionDenied (it
// cannot be executed), kResourceExhausted.
absl::StatusOr<pid_t> LaunchNative(const ExecCommand& command,
                                   const std::vector<std::string>& environment,
                                   const sigset_t& mask,
                                   const std::function<void(pid_t)>& before_exec);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_NATIVE_LAUNCH_H_
