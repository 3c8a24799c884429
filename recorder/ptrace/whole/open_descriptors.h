// The open descriptors of a stopped process.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_OPEN_DESCRIPTORS_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_OPEN_DESCRIPTORS_H_

#include <sys/types.h>

#include <vector>

#include "tracefmt/kernel_state.h"

namespace hindsight {

// By number, with offsets and flags, and what is in pipes, up to 1 MB for each; nothing is
// consumed. Empty: the process is gone, or may not be looked at.
std::vector<OpenDescriptor> ReadDescriptors(pid_t process);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_OPEN_DESCRIPTORS_H_
