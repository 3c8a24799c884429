// Memory that nobody stores to but the process's one thread and the system calls that it makes: it
// is exclusive. Then the thread uses it directly, without a view (translator.h, `exclusive`), and
// what calls have stored is told right after them (direct_memory.h).
//
// A process begins with such memory, and has it until it lets others store to it. Where it is not
// known what a call has stored, all that the process has stored to is told; a process that makes
// many such calls has its loads compared instead. A replay does without what is missed: it differs.
//
// The process's one thread; nothing happens if its memory is not exclusive, or it is not recorded.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_EXCLUSIVE_MEMORY_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_EXCLUSIVE_MEMORY_H_

#include <stdint.h>

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

bool IsMemoryExclusive();

// Others may store to memory from now on: for good, and as soon as the thread goes on.
void ShareMemory(Thread* thread);

// The same if `call`, which is about to be made, lets others do so. Not those that make tasks.
void ShareMemoryBefore(Thread* thread, const GuestCall& call);

// `made` has had this result, and the outputs that the table has of it have been told. The thread
// is in the state after it.
void TakeOtherOutputs(Thread* thread, const GuestCall& made, int64_t result);

// Something was stored to memory, nobody knows where.
void TakeUnknownOutputs(Thread* thread);

// This process has been forked off another one, and its thread counts anew.
void ForgetAsChild();

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_EXCLUSIVE_MEMORY_H_
