// A system call made by a stopped thread that may be a clone: the new task is traced, and stopped
// before its first instruction.
//
// Unlike CallInThread it does not step: a call costs three stops.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_INJECTED_CALL_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_INJECTED_CALL_H_

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"

namespace hindsight {

// A system call instruction in the vdso of the thread's process. kUnavailable: it has none.
absl::StatusOr<uint64_t> FindCallInstruction(pid_t thread);

struct InjectedResult {
  int64_t value = 0;  // what the call returned
  pid_t task = 0;     // what it has made; 0: nothing
};

// Makes the call at `instruction`. Afterwards the thread is in PTRACE_EVENT_STOP, with the
// registers and the signal mask that it had before, and in the system call that it was in, if any.
// kUnavailable: it is gone.
// Requires: seized, in PTRACE_EVENT_STOP, with the option TRACESYSGOOD, and TRACECLONE if a task is
// made. Not for calls that block.
absl::StatusOr<InjectedResult> InjectCall(pid_t thread, uint64_t instruction, int64_t number,
                                          const std::array<uint64_t, 6>& arguments);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_INJECTED_CALL_H_
