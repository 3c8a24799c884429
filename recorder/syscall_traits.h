// What the recorder must know of system calls. What they write needs no knowing: everything is
// compared afterwards.

#ifndef HINDSIGHT_RECORDER_SYSCALL_TRAITS_H_
#define HINDSIGHT_RECORDER_SYSCALL_TRAITS_H_

#include <cstdint>

namespace hindsight {

enum class NewTask : uint8_t { kNone, kThread, kProcess };

// What a clone, fork or vfork with these arguments makes. clone3's flags lie in memory:
// `clone3_flags`.
NewTask TaskMadeBy(int64_t number, const uint64_t* arguments, uint64_t clone3_flags);

// May change what /proc/PID/maps says.
bool MayChangeMap(int64_t number);
// Leaves another signal mask behind.
bool MayChangeSignalMask(int64_t number);
// Makes the kernel write to the process's memory at times of its own choosing.
bool StartsAsynchronousWrites(int64_t number);

// Whether this result, seen by a tracer, is the kernel's note to itself to restart the call or say
// EINTR, once it knows what happens to the signal that interrupted it.
bool IsRestartCode(int64_t result);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALL_TRAITS_H_
