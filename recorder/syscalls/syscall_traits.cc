#include "recorder/syscalls/syscall_traits.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

// include/linux/errno.h of the kernel; never seen by programs.
constexpr int64_t kRestartSys = -512;
constexpr int64_t kRestartNoIntr = -513;
constexpr int64_t kRestartNoHand = -514;
constexpr int64_t kRestartBlock = -516;

}  // namespace

bool MakesUntracedTask(int64_t number, uint64_t flags) {
  return (number == SYS_clone || number == SYS_clone3) && (flags & CLONE_UNTRACED) != 0;
}

std::optional<MemoryRange> ChangedMapRange(int64_t number, const uint64_t arguments[6],
                                           int64_t result) {
  const MapRange changed = ChangedByCall(number, arguments, result);
  if (changed.end == 0) return std::nullopt;
  return MemoryRange{changed.start, changed.end - changed.start};
}

bool MayChangeSignalMask(int64_t number) {
  return number == SYS_rt_sigprocmask || number == SYS_rt_sigreturn || number == SYS_execve ||
         number == SYS_execveat;
}

bool LimitsProcessorTime(int64_t number, const uint64_t* arguments) {
  const auto which = static_cast<int32_t>(arguments[0]);
  switch (number) {
    case SYS_setitimer:
      return which == ITIMER_VIRTUAL || which == ITIMER_PROF;
    case SYS_timer_create:  // of other processes and threads: negative numbers
      return which == CLOCK_PROCESS_CPUTIME_ID || which == CLOCK_THREAD_CPUTIME_ID || which < 0;
    case SYS_setrlimit:
      return which == RLIMIT_CPU;
    case SYS_prlimit64:
      return static_cast<int32_t>(arguments[1]) == RLIMIT_CPU && arguments[2] != 0;
    default:
      return false;
  }
}

TraceCall TracesOthers(int64_t number, const uint64_t* arguments) {
  if (number != SYS_ptrace) return {};
  switch (arguments[0]) {
    case PTRACE_TRACEME:
      return {TraceCall::Kind::kTraceMe, 0};
    case PTRACE_ATTACH:
    case PTRACE_SEIZE:
      return {TraceCall::Kind::kAttach, static_cast<int32_t>(arguments[1])};
    default:
      return {};
  }
}

bool RestrictsSystemCalls(int64_t number, const uint64_t* arguments) {
  if (number == SYS_prctl) return arguments[0] == PR_SET_SECCOMP;
  return number == SYS_seccomp &&
         (arguments[0] == SECCOMP_SET_MODE_STRICT || arguments[0] == SECCOMP_SET_MODE_FILTER);
}

const char* ReasonNotToRecord(int64_t number, const uint64_t* arguments) {
  switch (number) {
    case SYS_userfaultfd:
      // Reading such memory would make the recorder wait for a thread that waits for the recorder.
      return "uses userfaultfd, memory that is made when it is touched";
    case SYS_modify_ldt:
      // Function 0 and 2 only read.
      if (arguments[0] == 0 || arguments[0] == 2) return nullptr;
      return "makes memory segments of its own (modify_ldt)";
    case SYS_iopl:
    case SYS_ioperm:
      return "uses I/O ports";
    default:
      return nullptr;
  }
}

bool IsRestartCode(int64_t result) {
  return result == kRestartSys || result == kRestartNoIntr || result == kRestartNoHand ||
         result == kRestartBlock;
}

bool SaysEintrWithoutReason(int64_t number) {
  switch (number) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
    case SYS_io_getevents:
    case SYS_io_pgetevents:
    case SYS_io_uring_enter:
    case SYS_read:
    case SYS_readv:
    case SYS_write:
    case SYS_writev:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
      return true;
    default:
      return false;
  }
}

bool NeedsRestartSyscall(int64_t result) { return result == kRestartBlock; }

}  // namespace hindsight
