// The table of what system calls store: one entry for each call whose arguments determine it.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_OUTPUT_TABLE_H_
#define HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_OUTPUT_TABLE_H_

#include <cstdint>

#include "recorder/syscalls/call_shapes.h"

namespace hindsight {

// nullptr: the call is not in the table.
const SyscallShape* FindSyscallShape(int64_t number);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_OUTPUT_TABLE_H_
