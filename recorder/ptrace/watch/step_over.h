// Executing the one instruction that a breakpoint covers, while other threads run through the
// breakpoint and must not miss it.
//
// The instruction is executed elsewhere: its copy stands for an instant where the program began,
// which is code that nobody executes any more. Addresses relative to the instruction are set right
// before, the program counter and a return address after.

#ifndef HINDSIGHT_RECORDER_PTRACE_WATCH_STEP_OVER_H_
#define HINDSIGHT_RECORDER_PTRACE_WATCH_STEP_OVER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "recorder/ptrace/watch/code_places.h"

namespace hindsight {

// How a step ended.
struct StepEnd {
  bool alive = true;
  // It is not in PTRACE_EVENT_STOP, but in this other stop, as waitpid reported it: a signal that
  // the instruction has raised, or job control.
  std::optional<int> other;
};

// Executes the instruction at which the thread is, all repetitions of it. Signals meanwhile wait,
// but for those that the instruction itself raises.
// Requires: seized; in a stop with no signal about to be delivered. No system call instruction.
StepEnd StepInstruction(pid_t thread);

// Where copies of instructions may stand: code of the process that is executed once, at its start.
// Needs the new program to be mapped.
std::vector<uint64_t> ScratchPlaces(pid_t thread);

// The same as StepInstruction for a thread at `address`, with the instruction executed in one of
// `scratch`. nullopt, and nothing has happened: it cannot be executed elsewhere.
std::optional<StepEnd> StepElsewhere(pid_t thread, uint64_t address, const CodePlaces& places,
                                     const std::vector<uint64_t>& scratch);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WATCH_STEP_OVER_H_
