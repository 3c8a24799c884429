// Takes the breakpoints out of a process whose tracer has been killed.
//
// A process that was attached to must go on without its tracer, but would die of the first int3 it
// meets. So a process of its own, with nothing open but the other's memory, waits for the end of
// the one that has made it and then puts back the bytes that belong there. What remains is a thread
// that reaches a place in the fractions of a millisecond until then.
//
// Not copyable, not movable. One host thread.

#ifndef HINDSIGHT_RECORDER_PTRACE_BREAKPOINT_GUARD_H_
#define HINDSIGHT_RECORDER_PTRACE_BREAKPOINT_GUARD_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "recorder/process/process_memory.h"

namespace hindsight {

class BreakpointGuard {
 public:
  // `memory` is the process's; borrowed for the call.
  static absl::StatusOr<std::unique_ptr<BreakpointGuard>> Start(const ProcMemFile& memory);
  // Ends the guarding: what is in the process then stays there.
  ~BreakpointGuard();
  BreakpointGuard(const BreakpointGuard&) = delete;
  BreakpointGuard& operator=(const BreakpointGuard&) = delete;

  // To be called before the int3 is put there: `byte` belongs there. What is no int3 when it comes
  // to that stays as it is. False: there is no room for more.
  bool Add(uint64_t address, uint8_t byte);

 private:
  struct Table;

  BreakpointGuard(Table* table, UniqueFd alive) : table_(table), alive_(std::move(alive)) {}

  Table* const table_;  // shared with the guard
  UniqueFd alive_;      // the guard notices its closing
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_BREAKPOINT_GUARD_H_
