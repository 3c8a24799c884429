// System calls that make or end threads and processes, or execute a program.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_TASKS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_TASKS_H_

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// The first thread of a process. 0 or an error.
Thread* MakeFirstThread();

// Whether `call` makes a task that a recorded process cannot have: one that shares memory and
// signals with its caller but is of another process.
bool MakesOddTask(const GuestCall& call);

// True if `call` is one of these: it has been made, and the thread is past it, or a signal came
// before.
bool HandleTaskCall(Thread* thread, const GuestCall& call);

// Of a recorded process: those that are recorded, or have just been made and will be.
uint32_t RecordedThreads();

// Whether there is a thread that is not recorded, or not any more: the kernel may still store
// where it was told to when the thread ends.
bool IsAnyUnrecorded();

// The recording of a thread that is about to end, with its whole process if `all`: with `status`,
// as wait(2) reports it. What is left to do is the call that ends it; all signals are blocked.
void EndTask(Thread* thread, bool all, uint64_t status);

// Whether the recorded process has no other.
bool IsLastThread();

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_TASKS_H_
