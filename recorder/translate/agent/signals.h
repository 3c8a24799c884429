// Signals and faults: the kernel knows only the agent's handler; the program's own ones are entered
// by the agent, with frames as the kernel makes them.
//
// A signal that comes while the thread is in translated code, or in the agent, only becomes
// *pending*: translated code is left at its next block, the agent looks before it leaves, a system
// call that has not begun is not made. So handlers are entered with an exact state. All signals are
// blocked from there to the delivery, but for those of faults, which are never blocked.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_SIGNALS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_SIGNALS_H_

#include <signal.h>
#include <stdint.h>

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// As rt_sigaction has it.
struct SignalAction {
  uint64_t handler;
  uint64_t flags;
  uint64_t restorer;
  uint64_t mask;
};

inline bool IsIgnored(const SignalAction& action) {
  return action.handler == reinterpret_cast<uint64_t>(SIG_IGN);
}
inline bool HasHandler(const SignalAction& action) {
  return action.handler != reinterpret_cast<uint64_t>(SIG_DFL) && !IsIgnored(action);
}

inline constexpr int kSignalCount = 64;
inline constexpr uint64_t kMaskBytes = 8;
constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }

// Those of faults, which the agent needs and which are not blocked while it runs.
inline constexpr uint64_t kFaultSignals =
    Bit(SIGSEGV) | Bit(SIGBUS) | Bit(SIGFPE) | Bit(SIGILL) | Bit(SIGTRAP);
constexpr bool IsFaultSignal(int signal) { return (kFaultSignals & Bit(signal)) != 0; }
inline constexpr uint64_t kUnblockable = Bit(SIGKILL) | Bit(SIGSTOP);

// Those whose default action ends the process.
constexpr bool IsFatal(int signal) {
  constexpr uint64_t kHarmless = Bit(SIGCHLD) | Bit(SIGCONT) | Bit(SIGURG) | Bit(SIGWINCH) |
                                 Bit(SIGSTOP) | Bit(SIGTSTP) | Bit(SIGTTIN) | Bit(SIGTTOU);
  return (kHarmless & Bit(signal)) == 0 && signal != SIGKILL;
}

// What a process has set, by signal.
struct SignalActions {
  SignalAction of[kSignalCount + 1];
};

// Takes over the signals of a process that begins, with the dispositions that it has inherited. 0
// or an error.
int64_t StartSignals(Thread* thread);
// Those of a new thread of such a process. Its mask and alternate stack are set.
void StartThreadSignals(Thread* thread);
// The dispositions of `thread` for a process that is to share its memory but not these; it lies in
// gap `number`.
SignalActions* CopyActions(const Thread& thread, uint64_t number);
// Gives them back before another program is executed: what it inherits.
void PrepareSignalsForExec(Thread* thread);
void UndoPrepareForExec(Thread* thread);

// Signals of faults that are sent, not raised by an instruction, while the guest blocks them, are
// *held*. The kernel has them while it executes a system call, and may interrupt or answer that.
//
// Of a signal that has come, by its siginfo: true if it is held, because the guest blocks it, or
// another one goes first. A second one of the same kind is lost, as in the kernel.
bool Hold(Thread* thread, const int32_t* info);
// One that the guest does not block any more is pending from now on. True if anything is pending.
bool TakeHeld(Thread* thread);
// Which of Thread::held_info is that of `signal`, one of those of faults.
constexpr int HeldIndex(int signal) {
  int index = 0;
  for (int other = 1; other < signal; ++other) index += (kFaultSignals & Bit(other)) != 0 ? 1 : 0;
  return index;
}
// The kernel gets these, which are held. Requires: it blocks them.
void SendHeld(const Thread& thread, uint64_t signals);
// The process's other threads get what has come to this one, which is about to end.
void PassOnSignals(Thread* thread);
// Around a system call that the kernel executes. Orders reach the thread in the meantime, whatever
// the call blocks or waits for.
void GiveHeldToKernel(Thread* thread, GuestCall* call);
// `made`: the call, with its result; null: it was not made.
void TakeHeldBack(Thread* thread, const GuestCall* made);
// What is blocked when a handler is entered, but for what its action adds: what the guest blocks,
// or what the call did that its signal has ended. Once for each.
uint64_t TakeBlocked(Thread* thread);

// Enters the handler of the pending signal, or does what else its disposition says.
// Requires: the thread's state is exact.
void DeliverPending(Thread* thread);

// A thread for which a signal is pending leaves translated code at the end of its block.
void StopSoon(Thread* thread);

// Gives the thread's dispositions back to the kernel. No thread that has them is in translated code
// any more.
void GiveBackSignals(Thread* thread);
// The same for its alternate stack and its mask.
void GiveBackThreadSignals(const Thread& thread);

// A fault that the guest did not run into by an instruction of translated code.
void RaiseFault(Thread* thread, int signal);
// Enters the handler of a signal that the system call before pc has raised. False if there is none
// that could be entered.
bool RaiseBySystemCall(Thread* thread, const PendingSignal& signal);

// The process ends by `signal`, whatever its disposition is.
void EndBySignal(Thread* thread, const PendingSignal& signal);

// The status of a process that `signal` ends, as wait(2) reports it.
uint64_t StatusOfSignal(int signal);

// Blocks all signals but those of faults; for the agent's own purposes.
void BlockSignals();
// Those of faults as well: the thread must not run into any.
void BlockAllSignals();
// Back to what the guest blocks, unless a signal is pending: then all remain blocked.
void RestoreSignalMask(const Thread& thread);

// The alternate stack of the agent's handler.
GuestStack AgentSignalStack(const Thread& thread);
// Has the kernel do for `signal` what the guest's action wants.
void InstallAction(int signal, const SignalAction& action);

// True if `call` has to do with signals alone, and has been answered.
bool HandleSignalCall(Thread* thread, GuestCall* call);
// True if `call` is the return from a handler, and has been made.
bool HandleReturnFromSignal(Thread* thread, const GuestCall& call);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_SIGNALS_H_
