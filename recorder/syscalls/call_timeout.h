// How long a system call waits, and what it returns then: of calls that say EINTR to whoever
// disturbs them, and so must be made again with the time that is left.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_CALL_TIMEOUT_H_
#define HINDSIGHT_RECORDER_SYSCALLS_CALL_TIMEOUT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "recorder/syscalls/argument_memory.h"

namespace hindsight {

struct CallTimeout {
  uint64_t ns = 0;     // from the beginning of the call
  int64_t result = 0;  // when it is over
};

// Of a call that `process` makes; of a socket, what SO_RCVTIMEO and SO_SNDTIMEO say now.
// `arguments`: six. nullopt: it waits for ever, or until a fixed time, or is no such call.
std::optional<CallTimeout> TimeoutOfCall(pid_t process, int64_t number, const uint64_t* arguments,
                                         const ReadMemory& read);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_CALL_TIMEOUT_H_
