// What one thread of a recorded process orders all others to do: to end with the process, to go
// on without the agent, or to stand still for a moment.
//
//   order: kNone --first thread that gives one--> kEnd or kLeave, for good
//            | ^
//            v | all go on
//          kStand
//
// A thread that stands still waits for the others; when all do, each begins a segment with what
// memory holds, the one that has given the order last. Then the recorder writes a full keyframe.
// If one cannot be reached in time (it waits in the kernel for a child of vfork, or has been
// stopped), nothing was recorded, and it is tried again later.
//
// An order reaches a thread by a signal that the program cannot block (rt_tgsigqueueinfo with a
// code of its own), and is obeyed where the thread's state is exact. All threads of a recorded
// process; a thread gives an order where its own state is exact.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_ORDERS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_ORDERS_H_

#include <stdint.h>

#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// Whether a signal with this siginfo is an order.
bool IsOrder(const int32_t* info);

// The process is going to end by the caller: the recordings of all other threads have ended, but
// for those that could not be reached in time. If another thread was first, the caller is one of
// the others.
void EndOthers(Thread* thread);

// The recordings of all threads end, for `reason` (enum HsEndReason), and all go on without the
// agent. A thread that waits in a system call does so when that is over; for HS_END_TRACED it is
// woken, and makes the call anew.
[[noreturn]] void LeaveAll(Thread* thread, uint16_t reason);

// Has all others stand still, and the recorder write a full keyframe, for the reason given. The
// caller, in an exact state, begins a segment. False: one could not be reached, or something else
// was ordered.
bool StandStill(Thread* thread, const StandReason& reason);
// The same for a snapshot, several times if need be. The caller may have something pending then.
void TakeSnapshot(Thread* thread, const StandReason& reason);
// If one is wanted by the recorder.
void TakeSnapshotIfWanted(Thread* thread);
// If one is wanted before this signal is delivered.
void TakeSnapshotBefore(Thread* thread, int signal);

// Does what was ordered. Returns if that was to stand still, and is over.
void Obey(Thread* thread);

// This process has been forked off one where there may have been some.
void ForgetOrders();

// Looks whether an order was given before the thread could be reached.
void LookForOrder(Thread* thread);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_ORDERS_H_
