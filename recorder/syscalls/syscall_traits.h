// What the recorder must know of system calls besides what they store (syscall_outputs.h).

#ifndef HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_TRAITS_H_
#define HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_TRAITS_H_

#include <cstdint>
#include <optional>

#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

// Whether a call with these flags (clone3's lie in memory) makes a task that is not reported to a
// tracer.
bool MakesUntracedTask(int64_t number, uint64_t flags);

// May change what /proc/PID/maps says.
bool MayChangeMap(int64_t number);
// Where such a call has changed the map, if that is known.
std::optional<MemoryRange> ChangedMapRange(int64_t number, const uint64_t arguments[6],
                                           int64_t result);
// Changes the thread's signal mask.
bool MayChangeSignalMask(int64_t number);
// Makes the kernel write to the process's private memory at times of its own choosing. (Memory that
// drivers, perf_event_open or packet sockets write to is mapped shared.)
bool StartsAsynchronousWrites(int64_t number);

// Has the kernel send a signal once the process, or a thread, has used so much processor time.
bool LimitsProcessorTime(int64_t number, const uint64_t* arguments);

// Whom a successful call makes the caller the ptracer of, or have as ptracer. A task has one tracer
// only: the recorder must have let go of it before.
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

// The call forbids system calls to the caller, if it succeeds: the functions of the vdso must not
// be patched to make any (vdso.h) from before it on.
bool RestrictsSystemCalls(int64_t number, const uint64_t* arguments);

// Why a process that has made this call with success cannot be recorded beyond it, as "uses ...";
// nullptr if it can.
const char* ReasonNotToRecord(int64_t number, const uint64_t* arguments);

// Whether this result, seen by a tracer, is the kernel's note to itself to restart the call or say
// EINTR, once it knows what happens to the signal that interrupted it.
bool IsRestartCode(int64_t result);
// Of the restart codes: the call goes on as restart_syscall, and knows how much time is left.
bool NeedsRestartSyscall(int64_t result);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_TRAITS_H_
