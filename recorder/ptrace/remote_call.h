// System calls that a stopped thread makes for the recorder, without the program's noticing.

#ifndef HINDSIGHT_RECORDER_PTRACE_REMOTE_CALL_H_
#define HINDSIGHT_RECORDER_PTRACE_REMOTE_CALL_H_

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hindsight {

// What the call returned to the thread. Its registers, and an interrupted call of its own, are as
// they were afterwards. kUnavailable: the thread is gone, or its process has no vdso: the
// instruction is found there. kFailedPrecondition: it is entering a call of its own
// (LeaveCallEntry). Requires: traced, stopped, with no signal about to be delivered. Not for calls
// that block.
absl::StatusOr<int64_t> CallInThread(pid_t thread, int64_t number,
                                     const std::array<uint64_t, 6>& arguments);

// Lets the programs that the thread's process executes from now on have random addresses again, as
// they had without LaunchTraced. What the process has mapped stays where it is.
absl::Status RandomizeAddressesAgain(pid_t thread);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_REMOTE_CALL_H_
