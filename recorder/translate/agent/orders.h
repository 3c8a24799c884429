// What one thread of a recorded process orders all others to do: to end with the process, or to go
// on without the agent.
//
//   order: kNone --first thread that gives one--> kEnd or kLeave, for good
//
// An order reaches a thread by a signal that the program cannot block (rt_tgsigqueueinfo with a
// code of its own), and is obeyed where the thread's state is exact. All threads of a recorded
// process; a thread gives an order where its own state is exact.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_ORDERS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_ORDERS_H_

#include <stdint.h>

#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// Whether a signal with this siginfo is an order.
bool IsOrder(const int32_t* info);

// The process is going to end by the caller: the recordings of all other threads have ended, but
// for those that could not be reached in time. If another thread was first, the caller is one of
// the others.
void EndOthers(Thread* thread);

// The recordings of all threads end, for `reason` (enum HsEndReason), and all go on without the
// agent. A thread that waits in a system call does so when that is over.
[[noreturn]] void LeaveAll(Thread* thread, uint16_t reason);

// Does what was ordered. Requires: kOrderPending.
[[noreturn]] void Obey(Thread* thread);

// This process has been forked off one where there may have been some.
void ForgetOrders();

// Looks whether an order was given before the thread could be reached.
void LookForOrder(Thread* thread);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_ORDERS_H_
