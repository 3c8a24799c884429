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

// Whole pages; end 0: it is not known which.
struct MapRange {
  uint64_t start = 0;
  uint64_t end = 0;
};

// Where `call`, which has returned `result`, may have changed what /proc/PID/maps says.
constexpr MapRange ChangedByCall(int64_t number, const uint64_t* arguments, int64_t result) {
  // What failed may have been done in part.
  if (result < 0 && result > -4096) return {};
  // Huge pages are rounded otherwise.
  if (number == SYS_mmap && (arguments[3] & (MAP_HUGETLB | MAP_GROWSDOWN)) != 0) return {};
  if (number != SYS_mmap && number != SYS_munmap && number != SYS_mprotect) return {};
  constexpr uint64_t kPageMask = 4095;
  const uint64_t start = number == SYS_mmap ? static_cast<uint64_t>(result) : arguments[0];
  return {start, start + ((arguments[1] + kPageMask) & ~kPageMask)};
}

// Which regions show all of that: those that touch this range, or end or begin where it does, and
// what is not mapped behind them.
constexpr MapRange ShownAfterCall(int64_t number, const uint64_t* arguments, int64_t result) {
  if (number != SYS_brk) return ChangedByCall(number, arguments, result);
  constexpr uint64_t kPageMask = 4095;
  const uint64_t end = (static_cast<uint64_t>(result) + kPageMask) & ~kPageMask;
  return {end, end};
}

// Newer than the headers of Debian 12's C library.
inline constexpr uint64_t kDontNeedLocked = 24;  // MADV_DONTNEED_LOCKED

// Of madvise: what was there is something else afterwards.
constexpr bool DropsContents(uint64_t advice) {
  return advice == MADV_DONTNEED || advice == kDontNeedLocked || advice == MADV_REMOVE;
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_MAP_CALLS_H_
