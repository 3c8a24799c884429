// Instructions that translated code of a recorded thread leaves to translator/runtime: strings and
// locked ones, above all.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_OPERATIONS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_OPERATIONS_H_

#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// Executes the one that the thread has left translated code for, and goes on in translated code.
// It may fault: then AbandonOperation follows.
[[noreturn]] void RunOperation(Thread* thread);

// It has faulted for the guest: makes the thread's state that at the instruction. What it has done
// in part is done natively once more, unrecorded.
void AbandonOperation(Thread* thread);

// An instruction that was executed from the thread's count was an event in the order of threads,
// now or, if it is `timed`, at the thread block's locked_time.
void OrderInstruction(Thread* thread, bool timed);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_OPERATIONS_H_
