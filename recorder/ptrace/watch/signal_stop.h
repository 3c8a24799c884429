// Signals of a traced thread: which come again by themselves, and which are still to come.

#ifndef HINDSIGHT_RECORDER_PTRACE_WATCH_SIGNAL_STOP_H_
#define HINDSIGHT_RECORDER_PTRACE_WATCH_SIGNAL_STOP_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace hindsight {

// Of the signal that is about to be delivered to a thread, or of the stop in which it is. Requires:
// stopped by ptrace.
siginfo_t InfoOf(pid_t thread);

// Raised by the instruction at which the thread is, and by it again if that is executed again.
bool IsFault(const siginfo_t& info);

// Where the breakpoint instruction is that the thread has executed and whose SIGTRAP it has not
// reported yet: a stop that was asked for (PTRACE_EVENT_STOP) comes before the signal, and leaves
// the thread behind the instruction. nullopt: there is none. Let go on, the thread reports the
// SIGTRAP before it executes anything.
// Requires: stopped by ptrace.
std::optional<uint64_t> PendingBreakpoint(pid_t thread);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WATCH_SIGNAL_STOP_H_
