// The table of what system calls store: one entry for each call whose arguments determine it.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_OUTPUT_TABLE_H_
#define HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_OUTPUT_TABLE_H_

#include <cstdint>

#include "recorder/syscalls/output_shapes.h"

namespace hindsight {

struct SyscallShape {
  int64_t number = 0;
  Output outputs[4];          // those after the last are kNone
  bool writes_files = false;  // bytes of files may change
};

// nullptr: the call is not in the table.
const SyscallShape* FindSyscallShape(int64_t number);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_SYSCALL_OUTPUT_TABLE_H_
