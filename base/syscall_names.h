// Names of amd64 Linux system calls, as the kernel's asm/unistd_64.h of Linux 6.1 has them.

#ifndef HINDSIGHT_BASE_SYSCALL_NAMES_H_
#define HINDSIGHT_BASE_SYSCALL_NAMES_H_

#include <cstdint>

namespace hindsight {

// "openat"; nullptr if the number is not known.
const char* SyscallName(int64_t number);

}  // namespace hindsight

#endif  // HINDSIGHT_BASE_SYSCALL_NAMES_H_
