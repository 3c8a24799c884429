// How a command that runs a program ends: like the program, or with a status that says what failed.

#ifndef HINDSIGHT_CLI_RUNNING_EXIT_STATUS_H_
#define HINDSIGHT_CLI_RUNNING_EXIT_STATUS_H_

#include "absl/status/status.h"

namespace hindsight {

// The same as env(1)'s and timeout(1)'s, so that scripts can tell our failures from the program's.
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitRecorder = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

// Prints `status` (not OK). Returns the exit status that says why a program was not run.
int FailureStatus(const absl::Status& status);

// The exit status of a program that ended so, as wait(2) reports it. If a signal killed it, kills
// this process with the same, and returns only if that fails.
int ExitLike(int wait_status);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_RUNNING_EXIT_STATUS_H_
