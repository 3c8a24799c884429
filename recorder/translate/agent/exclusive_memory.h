// Memory that nobody stores to but the process's one thread and the system calls that it makes: it
// is exclusive. Then loads take what the view shows, without looking at memory (translator.h,
// `exclusive`), and what a call has stored is taken into the view right after it.
//
// A process begins with such memory, and has it until it lets others store to it. Where it is not
// known what a call has stored, all of the view is compared; a process that makes many such calls
// has its loads compared instead. What is missed is seen late: the program goes on with old bytes
// until the segment ends. The trace has what the program has seen in any case.
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

// `made` has had this result, and the outputs that the table has of it are in the view. The thread
// is in the state after it.
void TakeOtherOutputs(Thread* thread, const GuestCall& made, int64_t result);

// Something was stored to memory, nobody knows where.
void TakeUnknownOutputs(Thread* thread);

// This process has been forked off another one, and its thread counts anew.
void ForgetComparedPages();

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_EXCLUSIVE_MEMORY_H_
