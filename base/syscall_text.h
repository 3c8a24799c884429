// System calls as text, as strace writes them: openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3.

#ifndef HINDSIGHT_BASE_SYSCALL_TEXT_H_
#define HINDSIGHT_BASE_SYSCALL_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/types/span.h"

namespace hindsight {

// Reads memory of the process as it was at the call: as many bytes as are known from the start.
using CallMemory = std::function<size_t(uint64_t address, absl::Span<uint8_t> out)>;

// `arguments`: the six registers, or fewer. No `result`: it is not known yet. Unset `memory`, or a
// string that is not known: the pointer is shown. Printable whatever the program passed.
std::string SyscallText(int64_t number, absl::Span<const uint64_t> arguments,
                        std::optional<int64_t> result, const CallMemory& memory);

// "-1 ENOENT (No such file or directory)", "0x7ffff7a00000", "12".
std::string SyscallResultText(int64_t number, int64_t result);

// Whether the text shows bytes of the process's memory.
bool ShowsMemory(int64_t number);

}  // namespace hindsight

#endif  // HINDSIGHT_BASE_SYSCALL_TEXT_H_
