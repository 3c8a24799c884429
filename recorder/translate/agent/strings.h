// String instructions of a recorded thread, which work on the view and then on memory.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_STRINGS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_STRINGS_H_

#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// Executes the string instruction at the thread's pc, which is `size` bytes long, and goes past it.
// False, with nothing done, if it is none, or one that cannot be executed here.
bool ExecuteString(Thread* thread, uint64_t size);

// The same for fxsave and fxrstor.
bool ExecuteFloatState(Thread* thread, uint64_t size);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_STRINGS_H_
