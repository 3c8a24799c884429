// What ioctl stores, for the kinds of requests whose arguments are plain structs.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_IOCTL_OUTPUTS_H_
#define HINDSIGHT_RECORDER_SYSCALLS_IOCTL_OUTPUTS_H_

#include "recorder/syscalls/output_shapes.h"
#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

// A request of another kind may have written anywhere: drivers follow pointers in their structs.
void IoctlOutputs(const CallFrame& call, SyscallOutputs* out);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_IOCTL_OUTPUTS_H_
