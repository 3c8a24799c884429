// entry.S for C++, and what it calls.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_ENTRY_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_ENTRY_H_

#include <stdint.h>

#include "recorder/translate/agent/thread.h"

// In the same image: reached without a table of addresses.
#pragma GCC visibility push(hidden)

extern "C" {

// Labels: only their addresses are used.
void AgentEntry();
void AgentExit();
void AgentFault();
extern const char AgentLeaveEnd[];
extern const char AgentNativeJump[];
extern const char AgentCallCheck[], AgentCallInstruction[], AgentCallDone[], AgentCallNotMade[];
extern const char AgentCopyInstruction[];
extern const char AgentIsSameEnd[], AgentIsNotSame[];
void AgentRestorer();

// See entry.S.
[[noreturn]] void AgentLeave();
[[noreturn]] void AgentLeaveNow();
[[noreturn]] void AgentLeaveNative(const uint64_t* frame);
bool AgentSystemCall(uint64_t call[7]);
int64_t AgentClone(uint64_t call[7], void* stack, void (*child)(void*), void* argument);
uint64_t AgentCopy(void* to, const void* from, uint64_t bytes);
bool AgentIsSame(const void* memory, const void* other, uint64_t bytes);
void AgentRestoreState(void* frame);

// What entry.S calls.
[[noreturn]] void AgentBoot();
[[noreturn]] void AgentHandleExit(hindsight::agent::Thread* thread);
[[noreturn]] void AgentHandleFault(hindsight::agent::Thread* thread);
[[noreturn]] void AgentHandlePending(hindsight::agent::Thread* thread);

}  // extern "C"

#pragma GCC visibility pop

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_ENTRY_H_
