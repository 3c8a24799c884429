#include "recorder/syscall_traits.h"

#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

namespace hindsight {
namespace {

// Newer than the headers of some hosts.
constexpr int64_t kRseq = 334;
constexpr int64_t kFaccessat2 = 439;
constexpr int64_t kMapShadowStack = 453;

// include/linux/errno.h of the kernel; never seen by programs.
constexpr int64_t kRestartSys = -512;
constexpr int64_t kRestartNoIntr = -513;
constexpr int64_t kRestartNoHand = -514;
constexpr int64_t kRestartBlock = -516;

}  // namespace

NewTaskCall DescribeNewTask(int64_t number, const uint64_t* arguments, uint64_t clone3_flags) {
  uint64_t flags = 0;
  switch (number) {
    case SYS_fork:
      break;
    case SYS_vfork:
      flags = CLONE_VFORK | CLONE_VM;
      break;
    case SYS_clone:
      flags = arguments[0];
      break;
    case SYS_clone3:
      flags = clone3_flags;
      break;
    default:
      return {};
  }
  NewTaskCall call;
  call.task = (flags & CLONE_THREAD) != 0 ? NewTask::kThread : NewTask::kProcess;
  call.shares_memory = (flags & CLONE_VM) != 0;
  call.caller_waits = (flags & CLONE_VFORK) != 0;
  call.untraced = (flags & CLONE_UNTRACED) != 0;
  // What the kernel would call it in a ptrace event: a clone that signals SIGCHLD at its end is a
  // fork.
  if (call.caller_waits) {
    call.fork = ForkKind::kVfork;
  } else if (number != SYS_fork && (flags & CSIGNAL) != SIGCHLD && number != SYS_clone3) {
    call.fork = ForkKind::kClone;
  }
  return call;
}

NewTask TaskMadeBy(int64_t number, const uint64_t* arguments, uint64_t clone3_flags) {
  return DescribeNewTask(number, arguments, clone3_flags).task;
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

bool MayBlock(int64_t number) {
  switch (number) {
    // Memory.
    case SYS_brk:
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_mprotect:
    case SYS_madvise:
    case SYS_mincore:
    case SYS_mlock:
    case SYS_munlock:
    case SYS_arch_prctl:
    case SYS_shmat:
    case SYS_shmdt:
    case SYS_shmget:
    case SYS_memfd_create:
    case SYS_membarrier:
    // Files: they may wait for a disk, but not for another thread.
    case SYS_stat:
    case SYS_fstat:
    case SYS_lstat:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_statfs:
    case SYS_fstatfs:
    case SYS_access:
    case SYS_faccessat:
    case kFaccessat2:
    case SYS_readlink:
    case SYS_readlinkat:
    case SYS_getcwd:
    case SYS_chdir:
    case SYS_fchdir:
    case SYS_getdents:
    case SYS_getdents64:
    case SYS_lseek:
    case SYS_dup:
    case SYS_dup2:
    case SYS_dup3:
    case SYS_pipe:
    case SYS_pipe2:
    case SYS_ftruncate:
    case SYS_fadvise64:
    case SYS_unlink:
    case SYS_unlinkat:
    case SYS_rename:
    case SYS_mkdir:
    case SYS_chmod:
    case SYS_fchmod:
    case SYS_umask:
    case SYS_eventfd2:
    case SYS_timerfd_create:
    case SYS_timerfd_settime:
    case SYS_timerfd_gettime:
    case SYS_signalfd4:
    case SYS_epoll_create1:
    case SYS_epoll_ctl:
    case SYS_inotify_init1:
    case SYS_inotify_add_watch:
    // Sockets.
    case SYS_socket:
    case SYS_socketpair:
    case SYS_bind:
    case SYS_listen:
    case SYS_getsockname:
    case SYS_getpeername:
    case SYS_getsockopt:
    case SYS_setsockopt:
    case SYS_shutdown:
    // Signals.
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
    case SYS_rt_sigpending:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo:
    case SYS_sigaltstack:
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_alarm:
    case SYS_getitimer:
    case SYS_setitimer:
    case SYS_timer_create:
    case SYS_timer_settime:
    case SYS_timer_gettime:
    case SYS_timer_getoverrun:
    case SYS_timer_delete:
    // Facts.
    case SYS_getpid:
    case SYS_gettid:
    case SYS_getppid:
    case SYS_getpgrp:
    case SYS_getpgid:
    case SYS_getsid:
    case SYS_getuid:
    case SYS_geteuid:
    case SYS_getgid:
    case SYS_getegid:
    case SYS_getresuid:
    case SYS_getresgid:
    case SYS_getgroups:
    case SYS_uname:
    case SYS_sysinfo:
    case SYS_times:
    case SYS_getrusage:
    case SYS_getrlimit:
    case SYS_setrlimit:
    case SYS_prlimit64:
    case SYS_getcpu:
    case SYS_time:
    case SYS_gettimeofday:
    case SYS_clock_gettime:
    case SYS_clock_getres:
    case SYS_getpriority:
    case SYS_setpriority:
    case SYS_sched_getaffinity:
    case SYS_sched_setaffinity:
    case SYS_sched_getparam:
    case SYS_sched_getscheduler:
    case SYS_sched_setscheduler:
    case SYS_sched_get_priority_max:
    case SYS_sched_get_priority_min:
    case SYS_set_tid_address:
    case SYS_set_robust_list:
    case SYS_get_robust_list:
    case kRseq:
    case SYS_prctl:
    case SYS_capget:
    case SYS_setpgid:
    case SYS_setsid:
      return false;
    default:
      return true;
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

bool NeedsRestartSyscall(int64_t result) { return result == kRestartBlock; }

}  // namespace hindsight
