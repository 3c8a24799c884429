// Starts a program under ptrace, stopped before its first instruction.

#ifndef HINDSIGHT_RECORDER_PTRACE_LAUNCH_H_
#define HINDSIGHT_RECORDER_PTRACE_LAUNCH_H_

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "recorder/process/program_lookup.h"

namespace hindsight {

// The program's pid. It is a child of this process, seized by the calling thread, killed when that
// thread's process dies, and stopped at the first instruction of its new image (of ld.so, if it has
// an interpreter). Address space randomisation is off; descriptors, environment, directory, signal
// mask and dispositions are the caller's.
absl::StatusOr<pid_t> LaunchTraced(const ExecCommand& command);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_LAUNCH_H_
