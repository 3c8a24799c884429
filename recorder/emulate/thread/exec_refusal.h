// Programs that a recorded process must not execute while it is recorded: the kernel would not give
// them the privileges that they have natively.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_EXEC_REFUSAL_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_EXEC_REFUSAL_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "recorder/emulate/thread/call_in_flight.h"
#include "recorder/syscalls/argument_memory.h"

namespace hindsight {

// Why the recording of `process` must end before `call`, with the process as subject; empty: it
// need not, or the call executes nothing. `read` reads the memory of the process.
std::string ReasonNotToExec(const CallInFlight& call, pid_t process, const ReadMemory& read);

// The string at `address`, as far as it can be read, and as long as a path can be.
std::string ReadPath(uint64_t address, const ReadMemory& read);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_EXEC_REFUSAL_H_
