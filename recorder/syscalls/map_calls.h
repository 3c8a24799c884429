// Which system calls change what is mapped: the recorder reads the map again after them, and
// whoever runs meanwhile has to wait for it.
//
// Stateless; also for code without a library.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_MAP_CALLS_H_
#define HINDSIGHT_RECORDER_SYSCALLS_MAP_CALLS_H_

#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace hindsight {

// Newer than the headers of Debian 12.
inline constexpr int64_t kMapShadowStack = 453;

// May change what /proc/PID/maps says.
constexpr bool MayChangeMap(int64_t number) {
  switch (number) {
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_mprotect:
    case SYS_pkey_mprotect:
    case SYS_brk:
    case SYS_shmat:
    case SYS_shmdt:
    case SYS_remap_file_pages:
    case SYS_arch_prctl:
    case SYS_prctl:  // names of anonymous regions
    case SYS_personality:
    case SYS_io_setup:
    case SYS_io_destroy:
    case kMapShadowStack:
      return true;
    default:
      return false;
  }
}

// Newer than the headers of Debian 12's C library.
inline constexpr uint64_t kDontNeedLocked = 24;  // MADV_DONTNEED_LOCKED

// Of madvise: what was there is something else afterwards.
constexpr bool DropsContents(uint64_t advice) {
  return advice == MADV_DONTNEED || advice == kDontNeedLocked || advice == MADV_REMOVE;
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_MAP_CALLS_H_
