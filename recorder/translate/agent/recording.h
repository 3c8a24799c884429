// What the recording of a thread needs of the agent: its view, the entries of its ring, where its
// segments end.
//
// Nothing of this happens in a process that is translated without being recorded. Only the thread
// itself calls it.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_RECORDING_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_RECORDING_H_

#include <stdint.h>

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/thread.h"
#include "recorder/translate/stream/record_ring.h"
#include "recorder/translate/view/entry_writer.h"
#include "recorder/translate/view/thread_view.h"

namespace hindsight::agent {

// Whether the thread is recorded.
bool IsRecorded(const Thread& thread);
// The same of the one in gap `number`, whoever asks.
bool IsGapRecorded(uint64_t number);

// Reserves the view and begins, in the thread's present state, once the recorder has seen it: that
// of a process's first thread. 0 or an error.
int64_t StartRecording(Thread* thread);
// Reserves the view of a thread that does not run yet. 0 or an error: then nothing is reserved.
int64_t ReserveRecording(const Thread& thread);
// Begins with what was reserved, in the thread's present state. The entry of the call that made it
// must be in its maker's ring.
void BeginRecording(Thread* thread);
// The same, once the recorder has seen it: of a process's first thread.
void BeginProcessRecording(Thread* thread);
// Ends it in the thread's present state. `reason`: enum HsEndReason.
void EndRecording(Thread* thread, uint16_t reason);
// Gives back what was reserved. Nobody uses it any more.
void ReleaseRecording(const Thread& thread);
// The same, later, for a thread that does not use it any more: others may still meet what it
// stored.
void KeepEndedView(const Thread& thread);
// Whether that in gap `number` is still there. It goes when the gap's next thread is recorded.
bool IsEndedViewKept(uint64_t number);
// The view has no room for a page that the thread needs: it cannot be recorded any longer.
bool IsViewFull(const Thread& thread);
// The segment is to end as soon as the thread's state is exact: it has much.
bool IsSegmentLarge(const Thread& thread);
// The descriptor that views use and the program does not know of; not positive: there is none.
int32_t OwnFile();
// The process is going to end with this status, as wait(2) reports it.
void RecordStatus(Thread* thread, uint64_t status);

// The thread is another process's by now, or gone: what it had is not used any more.
void ForgetRecording(Thread* thread);
// This process has been forked off one that is recorded, and has none of its views.
void ForgetAllRecordings();

// Instructions until something is to be done; then EndSegmentIfDue does it.
uint64_t InstructionsLeft(const Thread& thread);
void EndSegmentIfDue(Thread* thread);

// Why all threads stand still: the reason of HsStanding. Without a trigger, a full keyframe is due.
struct StandReason {
  uint64_t trigger, detail;
};
struct Stood {
  uint64_t began;  // rdtsc; 0: this thread is not the last
  StandReason reason;
};
// All threads stand still: the thread takes into its view what memory holds, and begins a segment.
// The last one has begun that, and the recorder writes a full keyframe before this returns.
void RecordStanding(Thread* thread, const Stood& stood);
// The same thread, when others may go on.
void BeginStandingSegment(Thread* thread);

// Pages that its segment began with, if it uses memory directly.
uint64_t DirectPagesOf(const Thread& thread);
// What writes the entries of a thread that is recorded, and its view.
EntryWriter& WriterOf(const Thread& thread);
ThreadView& ViewOf(const Thread& thread);

// [address, address + bytes) is going to be read, or a call has stored to it. False if it cannot be
// read.
bool TakeRead(Thread* thread, uint64_t address, uint64_t bytes);
// Others may have written to memory that the process shares with them (IsInSharedMap): what the
// thread knows of that, some pages at most, is compared.
void TakeShared(Thread* thread);
// The thread has left translated code by kHsExitGuard: its view shows the page, and its byte says
// so, unless the page cannot be read.
void TakeGuarded(Thread* thread);
// What the view has may change by other ways than stores and imports, or go.
void ForgetGuards(const Thread& thread);
// The same of a thread that begins, maybe as the copy of another process's.
void ForgetInheritedGuards(const Thread& thread);
// A check of [address, address + bytes) failed.
void TakeMiss(Thread* thread, uint64_t address, uint64_t bytes);
// As TakeMiss, for memory that has been changed already: it had `old`.
void TakeOld(Thread* thread, uint64_t address, uint64_t bytes, const void* old);
// A locked instruction is next. TakeLocked, if it is executed, and RecordLocked must follow.
void ExpectLocked(Thread* thread);
// An instruction has accessed memory in a way that others can order: takes the time of that.
// RecordLocked must follow.
void TakeLocked(Thread* thread);
// The same for one that translated code has executed at `time`.
void TakeLockedAt(Thread* thread, uint64_t time);
// A fault at `address`, in state `at`. True if that is the view's, and the page is there now: the
// access can be tried again.
bool TakeViewFault(Thread* thread, uint64_t address, ThreadView::StateAt at);
// [start, end) is mapped anew, or not at all: its pages leave all threads' views, those of others
// when they next look.
void DropInAllViews(Thread* thread, uint64_t start, uint64_t end);
// Looks.
void DropWhatOthersDropped(Thread* thread);
// The address of memory that a fault at `address`, maybe of the view, is about.
uint64_t GuestAddress(const Thread& thread, uint64_t address);
// After a call that has put other memory at [start, end), or has moved it up by `moved` bytes: what
// the thread knew of it is read again.
void TakeReplaced(Thread* thread, uint64_t start, uint64_t end, uint64_t moved);
// A store to `address` was about to be made, and cannot be: it may be in the view already, or have
// been made in part.
void TakeFailedStore(Thread* thread, uint64_t address);

// An instruction that shows what the processor may compute otherwise than a replay is next.
void RecordCorrection(Thread* thread);

// A system call is about to be made in the present state. `timed`: it stands here in the order of
// threads, if it succeeds.
void RecordReached(Thread* thread, bool timed);

// What the thread sees at [address, address + bytes), within a page: a replay must show the same.
// Nothing if it does not see all of that.
void RecordSeen(Thread* thread, uint64_t address, uint64_t bytes);

// What a call has changed of the memory map has been read, at a time that precedes that.
struct ChangedMap {
  uint64_t number = 0;  // as in HsCall
  uint64_t time = 0;    // as in GuestCall of view/entry_writer.h
  bool executable = false;
};

// What a call has made.
struct CallEffects {
  uint64_t clone_flags = 0;
  uint64_t ring = 0;          // of a thread that is recorded; 0: none
  bool code_changed = false;  // in the place of code that was executed there may be other code
  ChangedMap changed_map;
};

// What is recorded from here on the recorder sees all at once, when it is published: who is killed
// in between has done none of it. What it does must not last. (160 KB have room.)
void HoldBackEntries(const Thread& thread);
void PublishEntries(const Thread& thread);
// The transition out of the present state: `call`, as the guest made it, has returned.
void RecordCall(Thread* thread, const GuestCall& call, int64_t result,
                const CallEffects& effects = {});
// `call` is about to execute a program. If it does not, another entry follows.
void RecordExec(Thread* thread, const GuestCall& call);
// ... the return from a signal handler; the thread's state is the one after it, its count the one
// before.
void RecordReturnFromSignal(Thread* thread, const GuestCall& call);
// ... a signal, likewise.
void RecordSignal(Thread* thread, const PendingSignal& signal);
// ... an instruction that was executed natively: the thread's state is the one after it, its count
// the one before.
// `before`: the words of the state before it, HS_ALL_STATE_WORDS; null: not known.
void RecordStep(Thread* thread, const uint64_t* before = nullptr);
// ... some iterations of a string instruction, which have stored to [start, end) at most: the state
// is the one after them. It is one that no instruction has led to.
void RecordPart(Thread* thread, uint64_t start, uint64_t end);
// ... an instruction that the agent has executed, likewise. It changes rax, rcx, rdx, rbx and pc
// at most.
void RecordInstruction(Thread* thread);
// ... an instruction for which TakeLocked was called, if it was. After ExpectLocked in any case.
void RecordLocked(Thread* thread);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_RECORDING_H_
