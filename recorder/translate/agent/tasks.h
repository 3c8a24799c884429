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

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_TASKS_H_
