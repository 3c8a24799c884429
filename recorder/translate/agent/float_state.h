// fxsave and fxrstor of a recorded thread, which work on the view and on memory.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_FLOAT_STATE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_FLOAT_STATE_H_

#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// Executes the one at the thread's pc, which is `size` bytes long, and goes past it. False, with
// nothing done, if it is none, or faults.
bool ExecuteFloatState(Thread* thread, uint64_t size);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_FLOAT_STATE_H_
