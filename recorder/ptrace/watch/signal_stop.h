// Signals of a traced thread: which come again, and calls that they interrupt for nothing.

#ifndef HINDSIGHT_RECORDER_PTRACE_WATCH_SIGNAL_STOP_H_
#define HINDSIGHT_RECORDER_PTRACE_WATCH_SIGNAL_STOP_H_

#include <signal.h>
#include <sys/types.h>

namespace hindsight {

// Raised by the instruction at which the thread is, and by it again if that is executed again.
bool IsFault(const siginfo_t& info);

// A call that says EINTR for no other reason than that the tracer woke it up is made again. Not if
// a handler runs, or if the signal is one that stops: the call would have said it then as well.
// `signal`: which is about to be delivered; 0: none. Requires: stopped.
void MakeDisturbedCallAgain(pid_t process, pid_t thread, int signal);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WATCH_SIGNAL_STOP_H_
