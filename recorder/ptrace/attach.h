// Stopping a process that runs already, to record it, and letting go of a traced one.
//
// Neither must be noticed by the process: no system call fails that would not have, no signal is
// lost or comes twice, a process stopped by job control stays stopped.
//
// The calling thread becomes the tracer (a rule of ptrace).

#ifndef HINDSIGHT_RECORDER_PTRACE_ATTACH_H_
#define HINDSIGHT_RECORDER_PTRACE_ATTACH_H_

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "recorder/process/vdso.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {

// Seizes every thread of process `pid`, with these ptrace options, and stops it. The main thread
// comes first, unless it has ended before the others. Then every thread
//   - is in PTRACE_EVENT_STOP, between two instructions;
//   - is in no system call: one that waited in a call is at the instruction that makes it
//     again (RegistersToResumeFrom), and if a signal with a handler had come, at the first
//     instruction of that handler, as it would have without us;
//   - is outside of the vdso, so that this can be patched.
//
// Errors, of one line that names process and reason, and with the process going on as before:
// kNotFound (there is no process of this id, or it ended), kPermissionDenied (another user's, or
// Yama forbids it), kFailedPrecondition (traced by another already, or a thread does not stop),
// kInvalidArgument (a thread's id, a kernel thread, ourselves, not a program for x86-64).
absl::StatusOr<std::vector<StoppedThread>> AttachToProcess(pid_t pid, uintptr_t options);

// The same of a process whose threads, which are `threads`, the calling thread traces and has
// stopped. Errors: kNotFound.
absl::StatusOr<std::vector<StoppedThread>> TakeOverTraced(pid_t pid,
                                                          absl::Span<const pid_t> threads,
                                                          uintptr_t options);

// What AttachToProcess does with threads that it has stopped, for those of a traced process that
// were stopped otherwise (BreakpointRun): brings them to where recording may begin. Fills in
// `group_stop` anew.
// Requires: `threads` are all of the process's, in PTRACE_EVENT_STOP.
absl::Status SettleThreads(pid_t pid, absl::Span<StoppedThread> threads);

// `stopped` are the registers of a thread in a ptrace stop in which no signal is about to be
// delivered. If it waits in a system call that the stop has interrupted and the kernel would make
// again: those of the same thread before that call, so that it is made again by the thread itself.
// Else `stopped`. `call_may_fail`: the call itself has said EINTR, but for no other reason than the
// stop (epoll_wait and its like know no better): it is made again as well.
user_regs_struct RegistersToResumeFrom(const user_regs_struct& stopped, bool call_may_fail);

// Lets go of a child process that has just been born to the traced process `parent`: its vdso is as
// it was, unless it shares its parent's memory, and if `launched` the programs that it will run
// have random addresses, as without LaunchTraced. Requires: stopped, at its first return to user
// mode or after its exec.
void LetChildGo(pid_t child, pid_t parent, bool launched);

// Brings a thread that is stopped as it enters a system call, which has done nothing yet, to
// PTRACE_EVENT_STOP at the instruction that makes it; the thread makes it when it goes on. One in
// another stop stays as it is. False: it is gone, or stays where it is because its calls are
// restricted (seccomp): on the way back the kernel shows the filter a call that there is not, and
// some filters kill for that.
bool LeaveCallEntry(pid_t thread);

// Lets a thread that was asked to stop go on from another stop, a ptrace event: the thread or
// process that it has made there is let go of.
void PassEvent(pid_t thread, const SeizedStop& event);

struct ThreadToDetach {
  pid_t thread = 0;
  // It is not stopped, for all that the caller knows: waits in a system call, or runs natively.
  bool running = false;
  // It is in a call that no stop interrupts, as long as its child of vfork has its memory: it is
  // not detached here, but by the caller, once it stops.
  bool stays = false;
  // Of a stopped one: the signal that it was about to get; 0 if none.
  int signal = 0;
};

// Stops the threads that are running, as far as they can be, and notes that; brings those that are
// about to make a system call to before it. What MayCall then may be made to call (CallInThread).
void StopToDetach(absl::Span<ThreadToDetach> threads);
bool MayCall(const ThreadToDetach& thread);

// Detaches the traced threads of process `pid`, which go on as if they had not been stopped, from
// the registers that they have. `patches` (PatchVdso) are taken back first. Those that waited in
// system calls go on with them. Threads that are gone, or vanish, are no error.
// Requires: none is running (StopToDetach).
absl::Status DetachFromProcess(pid_t pid, absl::Span<const ThreadToDetach> threads,
                               absl::Span<const VdsoPatch> patches);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_ATTACH_H_
