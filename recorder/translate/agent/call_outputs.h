// What a system call has stored, taken into the view at once: whoever looks at the recording sees
// it from the call on, not from when the program uses it.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_CALL_OUTPUTS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_CALL_OUTPUTS_H_

#include "recorder/translate/agent/calls.h"

namespace hindsight::agent {

// `made` has returned `result`, and the thread is in the state after it. A store that this misses
// is found when the program loads it.
void TakeOutputs(Thread* thread, const GuestCall& made, int64_t result);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_CALL_OUTPUTS_H_
