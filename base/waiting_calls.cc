#include "base/waiting_calls.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <cstddef>

namespace hindsight {
namespace {

bool FutexStoresNothing(uint64_t operation) {
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
      return true;
    default:  // FUTEX_WAKE_OP, and mutexes with priority inheritance
      return false;
  }
}

}  // namespace

bool StoresNothing(int64_t number, absl::Span<const uint64_t> arguments) {
  const auto is_null = [arguments](size_t i) { return i < arguments.size() && arguments[i] == 0; };
  switch (number) {
    case SYS_futex:
      return arguments.size() > 1 && FutexStoresNothing(arguments[1]);
    case SYS_nanosleep:  // the rest of the time, if it is interrupted
      return is_null(1);
    case SYS_clock_nanosleep:
      return is_null(3);
    case SYS_pause:
    case SYS_rt_sigsuspend:
    case SYS_sched_yield:
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
    case SYS_pwritev:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_connect:
    case SYS_shutdown:
    case SYS_flock:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_close:
    case SYS_openat:
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_mprotect:
      return true;
    default:
      return false;
  }
}

}  // namespace hindsight
