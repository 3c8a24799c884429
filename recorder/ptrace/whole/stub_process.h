// A process that is to become another one: stopped before its first instruction, none of which is
// ever executed.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_STUB_PROCESS_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_STUB_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "isa/registers.h"

namespace hindsight {

struct StubRequest {
  std::string executable;  // whose image it begins with; ours where that cannot be executed
  std::vector<std::string> arguments;
  pid_t pid = 0;             // what it is to have, if it can; 0: any
  int64_t personality = -1;  // personality(2); -1: ours
};

// Its pid: of the one that was asked for, if that is free and we have the right to choose
// (CAP_CHECKPOINT_RESTORE). It is a child of this process, seized by the calling thread with
// TRACESYSGOOD and TRACECLONE, in PTRACE_EVENT_STOP, and killed when the calling thread ends,
// traced or not. It has our descriptors 0, 1 and 2 and no others. kResourceExhausted,
// kPermissionDenied.
absl::StatusOr<pid_t> StartStub(const StubRequest& request);

// Waits for a task that InjectCall has made to stop. False: it is gone.
bool AwaitNewTask(pid_t task);

// What becomes of the system call that a thread was in.
enum class CallUnderWay : uint8_t {
  kIsMadeAgain,  // from its beginning, if the kernel would make it again; rip and rax say so
  kIsEnded,      // by the handler of a signal that comes now, as the kernel does it
};

// Gives a stopped thread these registers. `system_call`: the one that it was in when they were
// read, -1: none. False: the thread is gone.
bool SetThreadRegisters(pid_t thread, const RegisterFile& registers, int64_t system_call,
                        CallUnderWay call = CallUnderWay::kIsMadeAgain);
bool SetThreadMask(pid_t thread, uint64_t blocked);

// Runs a stopped thread, none of whose instructions is executed, to where a signal that is pending
// is about to be delivered to it, before any other; `blocked` is its mask then. False: it did not
// get there, or is gone. Requires: in PTRACE_EVENT_STOP.
bool BringToSignal(pid_t thread, int signal, uint64_t blocked);
// From there back to PTRACE_EVENT_STOP, without the signal. False: it is gone.
bool DropSignal(pid_t thread);

// Ends a child of this process, whose other threads are `threads`, traced by this one or not.
void KillAndReap(pid_t process, const std::vector<pid_t>& threads);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_STUB_PROCESS_H_
