// System calls that make or end threads and processes, or execute a program.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_TASKS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_TASKS_H_

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// The first thread of a process. 0 or an error.
Thread* MakeFirstThread();

// True if `call` is one of these: it has been made, and the thread is past it, or a signal came
// before.
// Whether `call` makes a task that has the caller's memory for longer than until the caller goes
// on.
bool MakesThread(const GuestCall& call);

bool HandleTaskCall(Thread* thread, const GuestCall& call);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_TASKS_H_
