// What the recorder must know of system calls besides what they store (syscall_outputs.h).

#ifndef HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_TRAITS_H_
#define HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_TRAITS_H_

#include <cstdint>
#include <optional>

#include "recorder/syscalls/map_calls.h"
#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

// Whether a call with these flags (clone3's lie in memory) makes a task that is not reported to a
// tracer.
bool MakesUntracedTask(int64_t number, uint64_t flags);

// Where a call that may change the map (map_calls.h) has changed it, if that is known.
std::optional<MemoryRange> ChangedMapRange(int64_t number, const uint64_t arguments[6],
                                           int64_t result);
// Changes the thread's signal mask.
bool MayChangeSignalMask(int64_t number);
// Makes the kernel send a signal after some processor time of the process or of a thread.
bool LimitsProcessorTime(int64_t number, const uint64_t* arguments);

// Which task is traced (ptrace) after a successful call. A task has one tracer only: the recorder
// must have detached from it before.
struct TraceCall {
  enum class Kind : uint8_t {
    kNone,
    kTraceMe,  // the caller's parent traces the caller
    kAttach,   // the caller traces thread `target`
  };
  Kind kind = Kind::kNone;
  int32_t target = 0;
};
TraceCall TracesOthers(int64_t number, const uint64_t* arguments);

// The call, if it succeeds, restricts the system calls of the caller: before it the functions of
// the vdso must stop making any (vdso.h).
bool RestrictsSystemCalls(int64_t number, const uint64_t* arguments);

// Why a process cannot be recorded after it has successfully made this call, as "uses ..."; nullptr
// if it can.
const char* ReasonNotToRecord(int64_t number, const uint64_t* arguments);

// Whether this result, seen by a tracer, is the kernel's note to itself to restart the call or say
// EINTR, once it knows what happens to the signal that interrupted it.
bool IsRestartCode(int64_t result);
// Calls that say EINTR when anything wakes them up, though nothing has been done: signal(7),
// "Interruption of system calls and library functions by stop signals", and sockets with timeouts.
bool SaysEintrWithoutReason(int64_t number);
// Of the restart codes: the call goes on as restart_syscall, and knows how much time is left.
bool NeedsRestartSyscall(int64_t result);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_TRAITS_H_
