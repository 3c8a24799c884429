// A system call made by a stopped thread that may be a clone: the new task is traced, and stopped
// before its first instruction. Should the tracer be killed meanwhile, the thread goes on as it
// would have (way_back.h), if its process has a C library and its stack some 3 KB to spare.
//
// Unlike CallInThread it does not step: a call costs three stops.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_INJECTED_CALL_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_INJECTED_CALL_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "recorder/ptrace/whole/call_site.h"

namespace hindsight {

struct InjectedResult {
  int64_t value = 0;  // what the call returned
  pid_t task = 0;     // what it has made; 0: nothing
};

struct CallToInject {
  int64_t number = 0;
  std::array<uint64_t, 6> arguments = {};
};

// Makes the calls, one after the other, at `site`; two stops for each, and one more. What
// each returned. Else as InjectCall. None of them may make a task.
absl::StatusOr<std::vector<int64_t>> InjectCalls(pid_t thread, const CallSite& site,
                                                 absl::Span<const CallToInject> calls);

// Makes the call at `site`. Afterwards the thread is in PTRACE_EVENT_STOP, with the
// registers and the signal mask that it had before, and in the system call that it was in, if any.
// kUnavailable: it is gone.
// Requires: seized, in PTRACE_EVENT_STOP, with the option TRACESYSGOOD, and TRACECLONE if a task is
// made. Not for calls that block.
absl::StatusOr<InjectedResult> InjectCall(pid_t thread, const CallSite& site, int64_t number,
                                          const std::array<uint64_t, 6>& arguments);

// Without a way back: for a thread that ends with its tracer.
inline absl::StatusOr<InjectedResult> InjectCall(pid_t thread, uint64_t instruction, int64_t number,
                                                 const std::array<uint64_t, 6>& arguments) {
  return InjectCall(thread, CallSite{instruction, 0}, number, arguments);
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_INJECTED_CALL_H_
