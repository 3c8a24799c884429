// The program's system calls.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_CALLS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_CALLS_H_

#include <stdint.h>

#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// Number and arguments, as AgentSystemCall takes them; [0] becomes the result.
struct GuestCall {
  uint64_t words[7];
  uint32_t number() const { return static_cast<uint32_t>(words[0]); }
  uint64_t argument(int i) const { return words[i + 1]; }
  void set_argument(int i, uint64_t value) { words[i + 1] = value; }
  int64_t result() const { return static_cast<int64_t>(words[0]); }
  void set_result(int64_t result) { words[0] = static_cast<uint64_t>(result); }
};

// Makes the call at the thread's pc and goes past it, unless a signal came before: then nothing has
// happened.
void HandleCall(Thread* thread);

// Goes past the system call at the thread's pc, with `result`.
void FinishCall(Thread* thread, int64_t result);

// Whether `call` maps memory outside the windows: it would not be made for the program as the
// kernel makes it. It names the place, whatever else is there, or has named others again and again;
// or only there is room for it.
bool MapsOutOfReach(const GuestCall& call);

// Calls that change mappings. True if `call` is one, and has been made or refused.
bool HandleMemoryCall(Thread* thread, GuestCall* call);

// `made` has had this result: if it has mapped memory that other processes may write to, or has
// unmapped such, that is known from now on. A child of fork has its parent's.
void NoteSharedMap(const GuestCall& made, int64_t result);
bool HasSharedMaps();
bool IsInSharedMap(uint64_t address);

// Limits on memory that the process gives itself (limits/own_limits.h). True if `call` is about
// one, and has been answered.
bool HandleLimitCall(const Thread& thread, GuestCall* call);

// Whether a program that the process executes has such a limit: the agent does not fit in.
bool IsMemoryLimited();

// They are the kernel's from now on. Nothing but the execution of a program may follow.
void InstallLimits();

// The calling thread's personality is the program's own from now on, also in the kernel: what it
// executes has random addresses again.
void InstallPersonality();

// What `made` has stored is taken into the view: whoever looks at the recording sees it from the
// call on, not from when the program uses it. The thread is in the state after the call, which has
// returned `result`. A store that this misses is found when the program loads it, unless memory is
// exclusive (exclusive_memory.h).
void TakeOutputs(Thread* thread, const GuestCall& made, int64_t result);
// `made` is about to be made: what it sends, up to some KB, is recorded, so that a replay can be
// compared with it.
void RecordSent(Thread* thread, const GuestCall& made);

// `made` has had this result: code that it has written, through /proc/PID/mem, is not what it was
// translated from.
void NoteMemoryWritten(Thread* thread, const GuestCall& made, int64_t result);
// The first bytes of the path of an open file, as /proc/self/fd has it, without a 0 at the end.
// Returns how many; a negative error number.
int64_t ReadPath(uint64_t file, char* path, uint64_t bytes);
// The process, or who has forked it off, has opened the memory of a process as a file.
bool IsMemoryFileOpened();

// `call` has been made and has its result; `made` is it before. If it has opened one of the files
// of /proc in which this process sees its memory map, that is replaced by one with the program's
// regions: as they are now, however often it is read.
void ShowOwnMap(Thread* thread, const GuestCall& made, GuestCall* call);

// Copies from or to the guest's memory. False if not all of it can be.
bool CopyGuest(void* to, const void* from, uint64_t bytes);

// The filters of system calls that the program has installed (seccomp): the kernel does not know of
// them, as it would apply them to the agent's calls as well. The agent asks them before each call
// of the program's; a thread that goes on without the agent has them installed in the kernel first.
// The same is true of what a thread wants to be told of in place of its calls (CallDispatch).
//
// How calls of the thread's are restricted: SECCOMP_MODE_*, 0: not at all.
int FilterMode(const Thread& thread);
uint32_t FilterCount(const Thread& thread);

// True if `call` is not to be made, and has been dealt with: refused, answered by a signal, or by
// the end of the thread or of the process.
bool HandleFilteredCall(Thread* thread, const GuestCall& call);

// True if `call` is one that installs a filter or asks for one, or sets a dispatch, and has been
// answered.
bool HandleFilterCall(Thread* thread, GuestCall* call);

// `call` installs a filter whose decisions another process takes.
bool MakesFilterListener(const GuestCall& call);

// What a new thread, or process, has of the one that makes it.
void CopyFilters(const Thread& from, Thread* to);

// The kernel's from now on. Nothing but the program's own calls may follow.
void InstallFilters(const Thread& thread);

// A child's memory is a copy of its parent's, whose other threads it does not have.
void ForgetFilterLock();

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_CALLS_H_
