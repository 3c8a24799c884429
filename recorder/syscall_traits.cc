#include "recorder/syscall_traits.h"

#include <sched.h>
#include <sys/syscall.h>

namespace hindsight {
namespace {

// Newer than the headers of some hosts.
constexpr int64_t kMapShadowStack = 453;

// include/linux/errno.h of the kernel; never seen by programs.
constexpr int64_t kRestartSys = -512;
constexpr int64_t kRestartNoIntr = -513;
constexpr int64_t kRestartNoHand = -514;
constexpr int64_t kRestartBlock = -516;

}  // namespace

NewTask TaskMadeBy(int64_t number, const uint64_t* arguments, uint64_t clone3_flags) {
  uint64_t flags = 0;
  switch (number) {
    case SYS_fork:
    case SYS_vfork:
      return NewTask::kProcess;
    case SYS_clone:
      flags = arguments[0];
      break;
    case SYS_clone3:
      flags = clone3_flags;
      break;
    default:
      return NewTask::kNone;
  }
  return (flags & CLONE_THREAD) != 0 ? NewTask::kThread : NewTask::kProcess;
}

bool MayChangeMap(int64_t number) {
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

bool MayChangeSignalMask(int64_t number) {
  return number == SYS_rt_sigprocmask || number == SYS_rt_sigreturn || number == SYS_execve ||
         number == SYS_execveat;
}

bool StartsAsynchronousWrites(int64_t number) {
  return number == SYS_io_setup || number == SYS_io_uring_setup;
}

bool IsRestartCode(int64_t result) {
  return result == kRestartSys || result == kRestartNoIntr || result == kRestartNoHand ||
         result == kRestartBlock;
}

}  // namespace hindsight
