// The futexes that a thread holds as it ends, and that the kernel then marks as its owner's death
// (FUTEX_OWNER_DIED): those in its robust list.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_ROBUST_FUTEXES_H_
#define HINDSIGHT_RECORDER_SYSCALLS_ROBUST_FUTEXES_H_

#include <sys/types.h>

#include <vector>

#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

// The words of the futexes that are in the list of `thread` now. `read` reads its memory. A list is
// followed as far as the kernel does, and as far as it can be read.
std::vector<MemoryRange> RobustFutexes(pid_t thread, const ReadMemory& read);

// The same, with the address of the list's head.
std::vector<MemoryRange> FutexesInList(uint64_t head, const ReadMemory& read);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_ROBUST_FUTEXES_H_
