// Why a process cannot be attached to, in one line.

#ifndef HINDSIGHT_RECORDER_PTRACE_ATTACH_ERRORS_H_
#define HINDSIGHT_RECORDER_PTRACE_ATTACH_ERRORS_H_

#include <sys/types.h>

#include "absl/status/status.h"

namespace hindsight {

// What can be said beforehand.
absl::Status CheckAttachable(pid_t pid);

absl::Status NoSuchProcess(pid_t pid);
absl::Status NotForThisProcessor(pid_t pid);
absl::Status DoesNotStop(pid_t pid, pid_t thread);
// After PTRACE_SEIZE has failed with `error`.
absl::Status WhyNotSeized(pid_t pid, pid_t thread, int error);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_ATTACH_ERRORS_H_
