// A system call that a stopped process makes for us.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_CALL_IN_STOP_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_CALL_IN_STOP_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "recorder/ptrace/whole/process_stop.h"

namespace hindsight {

// What it returned, in one of the process's threads: negative is an error number. kUnavailable: the
// process is gone or has no vdso. Requires: `stop` is not released. Not for calls that block.
absl::StatusOr<int64_t> CallInStop(const ProcessStop& stop, int64_t number,
                                   const std::array<uint64_t, 6>& arguments);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_CALL_IN_STOP_H_
