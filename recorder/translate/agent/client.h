// What the agent asks the recorder for. See control.h.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_CLIENT_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_CLIENT_H_

#include <stdint.h>

#include "recorder/translate/agent/thread.h"
#include "recorder/translate/base/control.h"

namespace hindsight::agent {

struct Answer {
  uint64_t results[kRequestWords];
};

// Nobody answers any more, since recording is over. If there is no recorder any more, which is
// another matter, the process ends.
bool IsAbandoned();

// Asks by the thread's own slot and waits for the answer: zeros, if nobody answers any more.
Answer Ask(Thread* thread, RequestKind kind, uint64_t a = 0, uint64_t b = 0);

// The same by one of the slots that are no thread's, for a child that has its parent's control
// block still.
struct Arguments {
  uint64_t words[kRequestWords];
};
Answer AskAsStranger(int32_t thread_id, RequestKind kind, const Arguments& arguments);

// By whom a task was made, as the recorder numbers them, in which state.
struct Birth {
  int32_t process, maker;
  uint64_t count;
  uint32_t epoch;  // of the translated code (base/control.h)
};
// Asks what the process of `thread`, a child, is to be: enum ForkAnswer; and what its numbers are.
// `file`: of its own memory, or kParentsMemory, or the error of the call that was to make one.
uint64_t AskForBirth(Thread* thread, int64_t file, const Birth& birth);
// Has the recorder know by which number it is to call a thread that has just been made, before the
// call that has made it is recorded.
void TellNumber(Thread* thread);

// Has the recorder notice stores to the process's code, if it wants to and that can be.
void OpenGuardIfWanted(Thread* thread);

// The process ends, whatever it is: no signal of its own ends the first one of a PID namespace.
[[noreturn]] void EndAtOnce();

// Of a thread that has come to its end at any moment, and does not ask any more: its slot is
// another one's from now on.
void SettleSlot(const Thread& thread);

// Tells that [start, end) may have other contents than it was translated from, if it was, and notes
// that in `code_changed`.
void Invalidate(Thread* thread, uint64_t start, uint64_t end);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_CLIENT_H_
