// Instructions that translated code does not execute and the agent does not know: the thread
// executes the guest's own one natively, with the trap flag set, and what it has done to the
// registers is recorded. What it stores is found by later checks, like what the kernel writes.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_STEPPING_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_STEPPING_H_

#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// Executes the instruction at pc, whatever it is. Requires: the thread's state is exact.
[[noreturn]] void ExecuteNatively(Thread* thread);

// Whether the instruction at pc can be executed so while the thread is recorded.
bool IsWithinReach(const Thread& thread);
// Whether only that tells what the thread's fault at pc is. An address that is not canonical raises
// SIGBUS where it is relative to rsp or rbp, unless GS is added to it, as for the view; what lies
// outside of the windows is another thing where the view would have it; and what has been stored in
// part has not if the view faults first.
bool IsToldByInstruction(const Thread& thread);
// Whether the instruction at `pc`, of translated code, accesses the view, or the thread's own.
bool HasGsPrefix(uint64_t pc);

// Keeps the state before it. Before it is executed.
void BeginStep(Thread* thread);

// It has been executed: the thread's registers are those after it, its count the one before.
void FinishStep(Thread* thread);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_STEPPING_H_
