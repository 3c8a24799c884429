// Starts a program under ptrace, stopped before its first instruction.

#ifndef HINDSIGHT_RECORDER_PTRACE_LAUNCH_H_
#define HINDSIGHT_RECORDER_PTRACE_LAUNCH_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "recorder/process/program_lookup.h"

namespace hindsight {

// Where the kernel maps what a program asks for: from high addresses downward, or upward from a
// third of the address space, which leaves the rest to the recorder.
enum class AddressLayout : uint8_t { kUsual, kUpward };

// The program's pid. It is a child of this process, seized by the calling thread, killed when that
// thread's process dies, and stopped at the first instruction of its new image (of ld.so, if it has
// an interpreter). Address space randomisation is off; descriptors, environment, directory, signal
// mask and dispositions are the caller's.
absl::StatusOr<pid_t> LaunchTraced(const ExecCommand& command,
                                   AddressLayout layout = AddressLayout::kUsual);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_LAUNCH_H_
