// Going from exit to exit of translated code.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_RUN_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_RUN_H_

#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// Delivers what is pending, then lets the thread go on at its pc. Requires: its state is exact: pc,
// count, registers, flags.
[[noreturn]] void Continue(Thread* thread);

// Goes on in the middle of a block, at `host_pc`, with the registers that translated code was left
// with.
[[noreturn]] void TryAgain(Thread* thread, uint64_t host_pc);

// Lets the thread go on without the agent, with the alternate stack and the mask that it would have
// without it. Requires: GiveBackSignals has been called.
[[noreturn]] void LeaveAlone(Thread* thread);

// Lets the thread execute the guest's own code at its pc: one instruction, or for good.
[[noreturn]] void LeaveNatively(Thread* thread, bool step);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_RUN_H_
