// What the kernel keeps of the threads of a stopped process besides their registers.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_THREAD_STATE_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_THREAD_STATE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "recorder/ptrace/whole/process_stop.h"
#include "tracefmt/kernel_state.h"

namespace hindsight {

// What can be read from outside: all but the signal stack and the address of clear_tid. Requires:
// traced by this host thread, stopped.
ThreadKernelState ReadThreadState(pid_t thread);

// Whether a thread can have other registers for an instant without its noticing: not in a
// restartable sequence, where the kernel would forget to send it back to the start, nor in a stop
// that is not PTRACE_EVENT_STOP.
bool CanMakeCalls(pid_t thread);

// The siginfos of the signals that are pending for the process as a whole, in the order they came.
std::vector<std::string> ProcessSiginfos(pid_t thread);
// The signals that they are of, as bits.
uint64_t SignalsOf(const std::vector<std::string>& siginfos);

// What only the process itself can ask for: fills in, for each of the stop's threads in `state`,
// the signal stack, if the process handles any signal, and clear_tid; and the interval timers. The
// threads make the calls, and have their own registers again afterwards. What cannot be had stays
// unknown.
void AskThreads(const ProcessStop& stop, KernelState* state);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_THREAD_STATE_H_
