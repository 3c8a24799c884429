// Bringing single threads to a stop, with ptrace, without their noticing.

#ifndef HINDSIGHT_RECORDER_PTRACE_THREAD_STOP_H_
#define HINDSIGHT_RECORDER_PTRACE_THREAD_STOP_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "recorder/ptrace/wait_status.h"

namespace hindsight {

// A traced thread in PTRACE_EVENT_STOP.
struct StoppedThread {
  pid_t thread = 0;
  // Not 0: job control has stopped the process by this signal. The thread is to be listened to
  // (PTRACE_LISTEN) and not run until it has been continued.
  int group_stop = 0;
};

struct SeizedStop {
  enum class Kind : uint8_t {
    kStopped,   // in PTRACE_EVENT_STOP
    kEvent,     // in another ptrace event, `event`
    kGone,      // ended; reaped by this call, unless it is a child of this process
    kTimedOut,  // still running: in a system call that no signal interrupts
  };
  Kind kind = Kind::kGone;
  int event = 0;
  int group_stop = 0;   // kStopped: not 0: by job control, with this signal
  int wait_status = 0;  // kGone, if it was reaped
};

// Waits for the thread's next stop of these kinds. Signals that it gets before are delivered; after
// each of them, and after stops at system calls, it is asked to stop again.
// Requires: seized, and asked to stop (PTRACE_INTERRUPT) or bound to stop.
SeizedStop WaitForSeizedStop(pid_t thread, std::chrono::milliseconds timeout);

// Waits for the thread's next stop, whatever it is. nullopt: it is gone; its end is left for the
// next wait.
std::optional<WaitStatus> WaitForAnyStop(pid_t thread);

// Brings a stopped thread, in the SIGTRAP of a single step for example, to PTRACE_EVENT_STOP,
// without executing anything: should its tracer die, the kernel would deliver the SIGTRAP. If it
// comes to another stop, such as a group stop: the status as waitpid reports it. Its end is left
// for the next wait. Requires: seized.
std::optional<int> LeaveStepTrap(pid_t thread);

// Lets a stopped thread go on, with `signal` delivered if it is not 0, to a stop that comes at
// once. False if it is gone. Requires: seized.
bool ContinueToStop(pid_t thread, int signal);

// Ends the tracing of a stopped thread, which goes on with `signal` delivered if it is not 0.
void Detach(pid_t thread, int signal = 0);

// Whether the traced thread has ended. Whoever else waits for it learns of its end only now that
// its tracer has; that of a child of this process is left for the next wait. Does not wait.
bool TakeEnd(pid_t thread);

// Ends the tracing of a stopped thread, also if somebody has killed it meanwhile (TakeEnd).
void DetachOrTakeEnd(pid_t thread);

// Steps a stopped thread, no signal taken meanwhile, while its pc is one that `inside` is true for.
// False if it is gone, which it is left to the caller to wait for, or still inside after
// `max_steps`.
bool StepWhile(pid_t thread, int max_steps, const std::function<bool(uint64_t pc)>& inside);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_THREAD_STOP_H_
