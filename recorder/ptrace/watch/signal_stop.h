// Signals of a traced thread: which come again by themselves.

#ifndef HINDSIGHT_RECORDER_PTRACE_WATCH_SIGNAL_STOP_H_
#define HINDSIGHT_RECORDER_PTRACE_WATCH_SIGNAL_STOP_H_

#include <signal.h>

namespace hindsight {

// Raised by the instruction at which the thread is, and by it again if that is executed again.
bool IsFault(const siginfo_t& info);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WATCH_SIGNAL_STOP_H_
