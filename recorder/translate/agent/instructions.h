// Instructions that are not executed in translated code.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_INSTRUCTIONS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_INSTRUCTIONS_H_

#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// Does what the instruction at the thread's pc does; returns if that is possible here, else the
// guest's own one is executed.
void HandleInstruction(Thread* thread);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_INSTRUCTIONS_H_
