#include "recorder/ptrace/whole/call_in_stop.h"

#include <sys/ptrace.h>

#include "base/status_macros.h"
#include "recorder/ptrace/whole/injected_call.h"

namespace hindsight {

absl::StatusOr<int64_t> CallInStop(const ProcessStop& stop, int64_t number,
                                   const std::array<uint64_t, 6>& arguments) {
  if (stop.threads().empty()) return absl::UnavailableError("the process is gone");
  const pid_t thread = stop.threads()[0].thread;
  ASSIGN_OR_RETURN(const uint64_t instruction, FindCallInstruction(thread));
  ptrace(PTRACE_SETOPTIONS, thread, nullptr, stop.options() | PTRACE_O_TRACESYSGOOD);
  const absl::StatusOr<InjectedResult> result = InjectCall(thread, instruction, number, arguments);
  ptrace(PTRACE_SETOPTIONS, thread, nullptr, stop.options());
  RETURN_IF_ERROR(result.status());
  return result->value;
}

}  // namespace hindsight
