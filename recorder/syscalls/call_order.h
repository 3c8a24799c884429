// Where a system call stands among those of other threads and processes: causes come before
// effects. One that lets others see something, or wakes them, stands where it began; one that
// learns something from them, where it returned.
//
//   beginning   what can change anything that others see: also calls that are not known here, and
//               those that do both when they succeed (a write waits until there is room)
//   end         what only asks or waits, or is nobody else's business; and each call that failed
//               (ChangedNothing): that something is not so, it has learned
//
// Stateless; also for code without a library.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_CALL_ORDER_H_
#define HINDSIGHT_RECORDER_SYSCALLS_CALL_ORDER_H_

#include <asm/ioctls.h>
#include <errno.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>

namespace hindsight {

namespace call_order {

// Newer than the headers of Debian 12.
inline constexpr uint32_t kCachestat = 451, kMapShadowStack = 453, kFutexWait = 455,
                          kStatmount = 457, kListmount = 458, kLsmGetSelfAttr = 459,
                          kLsmListModules = 461;
inline constexpr uint32_t kFutexLockPi2 = 13;
inline constexpr uint32_t kCallCount = 512;

struct CallSet {
  uint64_t bits[kCallCount / 64] = {};

  template <int kSize>
  constexpr explicit CallSet(const uint32_t (&numbers)[kSize]) {
    for (const uint32_t number : numbers) bits[number / 64] |= uint64_t{1} << number % 64;
  }
  constexpr bool Has(uint64_t number) const {
    return number < kCallCount && (bits[number / 64] >> number % 64 & 1) != 0;
  }
};

// What only asks or waits.
inline constexpr uint32_t kAsking[] = {SYS_read,
                                       SYS_readv,
                                       SYS_pread64,
                                       SYS_preadv,
                                       SYS_preadv2,
                                       SYS_recvfrom,
                                       SYS_recvmsg,
                                       SYS_recvmmsg,
                                       SYS_accept,
                                       SYS_accept4,
                                       SYS_poll,
                                       SYS_ppoll,
                                       SYS_select,
                                       SYS_pselect6,
                                       SYS_epoll_wait,
                                       SYS_epoll_pwait,
                                       SYS_epoll_pwait2,
                                       SYS_wait4,
                                       SYS_waitid,
                                       SYS_pause,
                                       SYS_rt_sigsuspend,
                                       SYS_rt_sigtimedwait,
                                       SYS_rt_sigpending,
                                       SYS_futex_waitv,
                                       kFutexWait,
                                       SYS_msgrcv,
                                       SYS_mq_timedreceive,
                                       SYS_io_getevents,
                                       SYS_io_pgetevents,
                                       SYS_process_vm_readv,
                                       SYS_stat,
                                       SYS_fstat,
                                       SYS_lstat,
                                       SYS_newfstatat,
                                       SYS_statx,
                                       SYS_statfs,
                                       SYS_fstatfs,
                                       SYS_ustat,
                                       SYS_access,
                                       SYS_faccessat,
                                       SYS_faccessat2,
                                       SYS_readlink,
                                       SYS_readlinkat,
                                       SYS_getdents,
                                       SYS_getdents64,
                                       SYS_getcwd,
                                       SYS_getxattr,
                                       SYS_lgetxattr,
                                       SYS_fgetxattr,
                                       SYS_listxattr,
                                       SYS_llistxattr,
                                       SYS_flistxattr,
                                       SYS_name_to_handle_at,
                                       SYS_getsockname,
                                       SYS_getpeername,
                                       SYS_getsockopt,
                                       SYS_timer_gettime,
                                       SYS_timer_getoverrun,
                                       SYS_timerfd_gettime,
                                       SYS_getitimer,
                                       SYS_mincore,
                                       SYS_kcmp,
                                       SYS_pidfd_open,
                                       SYS_pidfd_getfd,
                                       SYS_get_robust_list,
                                       SYS_getpriority,
                                       SYS_ioprio_get,
                                       SYS_sched_getparam,
                                       SYS_sched_getscheduler,
                                       SYS_sched_getaffinity,
                                       SYS_sched_getattr,
                                       SYS_sched_rr_get_interval,
                                       SYS_getrlimit,
                                       SYS_getrusage,
                                       SYS_times,
                                       SYS_sysinfo,
                                       SYS_getpgid,
                                       SYS_getpgrp,
                                       SYS_getsid,
                                       SYS_getppid,
                                       SYS_getgroups,
                                       SYS_getresuid,
                                       SYS_getresgid,
                                       SYS_capget,
                                       SYS_sysfs,
                                       SYS_get_mempolicy,
                                       SYS_shmat,
                                       kCachestat,
                                       kStatmount,
                                       kListmount,
                                       kLsmGetSelfAttr,
                                       kLsmListModules};

// What concerns the thread alone, or makes what nobody else knows of; and the end of a thread,
// which has no place among calls.
inline constexpr uint32_t kPrivate[] = {SYS_exit,
                                        SYS_exit_group,
                                        SYS_getpid,
                                        SYS_gettid,
                                        SYS_getuid,
                                        SYS_geteuid,
                                        SYS_getgid,
                                        SYS_getegid,
                                        SYS_uname,
                                        SYS_gettimeofday,
                                        SYS_time,
                                        SYS_clock_gettime,
                                        SYS_clock_getres,
                                        SYS_getcpu,
                                        SYS_getrandom,
                                        SYS_nanosleep,
                                        SYS_clock_nanosleep,
                                        SYS_sched_yield,
                                        SYS_restart_syscall,
                                        SYS_rt_sigprocmask,
                                        SYS_rt_sigreturn,
                                        SYS_sigaltstack,
                                        SYS_set_tid_address,
                                        SYS_set_robust_list,
                                        SYS_rseq,
                                        SYS_arch_prctl,
                                        SYS_brk,
                                        SYS_pipe,
                                        SYS_pipe2,
                                        SYS_socket,
                                        SYS_socketpair,
                                        SYS_dup,
                                        SYS_eventfd,
                                        SYS_eventfd2,
                                        SYS_timerfd_create,
                                        SYS_signalfd,
                                        SYS_signalfd4,
                                        SYS_epoll_create,
                                        SYS_epoll_create1,
                                        SYS_memfd_create,
                                        SYS_inotify_init,
                                        SYS_inotify_init1,
                                        SYS_timer_create,
                                        SYS_io_setup,
                                        SYS_fadvise64,
                                        SYS_readahead,
                                        SYS_mlock,
                                        SYS_mlock2,
                                        SYS_munlock,
                                        SYS_fsync,
                                        SYS_fdatasync,
                                        SYS_sync,
                                        SYS_syncfs,
                                        SYS_sync_file_range,
                                        SYS_msync,
                                        SYS_pkey_alloc,
                                        kMapShadowStack};

inline constexpr CallSet kAskingCalls(kAsking), kPrivateCalls(kPrivate);

constexpr bool IsFutexWait(uint64_t operation) {
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_WAIT_REQUEUE_PI:
    case FUTEX_LOCK_PI:
    case FUTEX_TRYLOCK_PI:
    case kFutexLockPi2:
      return true;
    default:
      return false;
  }
}

constexpr bool Changes(uint64_t open_flags) {
  return (open_flags & (O_CREAT | O_TRUNC)) != 0;  // O_TMPFILE's file is nobody else's
}

// Older requests do not say in which direction they go.
constexpr bool OnlyAsks(uint64_t request) {
  constexpr uint64_t kDirection = uint64_t{3} << 30, kToUser = uint64_t{2} << 30;
  switch (request & 0xffffffff) {
    case TCGETS:
    case TCGETA:
    case TIOCGPGRP:
    case TIOCGSID:
    case TIOCGWINSZ:
    case TIOCOUTQ:
    case TIOCMGET:
    case FIONREAD:
      return true;
    default:
      return (request & kDirection) == kToUser;
  }
}

// IPC_STAT, IPC_INFO, and those of one kind that begin with GET or end with STAT or INFO.
constexpr bool OnlyAsksIpc(uint64_t command) {
  const uint64_t plain = command & 0xff;  // without IPC_64
  return plain == 2 || plain == 3 || (plain >= 11 && plain <= 15) || plain >= 18;
}

}  // namespace call_order

// Whether a call stands where it began, if it succeeds. `peek(address, bytes)`: up to 8 bytes of
// the caller's memory as a number; 0 if there are none.
template <typename Peek>
constexpr bool StandsWhereItBegan(uint64_t number, const uint64_t* arguments, const Peek& peek) {
  using namespace call_order;
  number &= 0xffffffff;
  if (kAskingCalls.Has(number) || kPrivateCalls.Has(number)) return false;
  const uint64_t* const a = arguments;
  switch (number) {
    case SYS_futex:
      return !IsFutexWait(a[1]);
    case SYS_open:
      return Changes(a[1]);
    case SYS_openat:
      return Changes(a[2]);
    case SYS_openat2:
      return Changes(peek(a[2], 8));
    case SYS_lseek:
      return a[1] != 0 || a[2] != 1;  // 0, SEEK_CUR: where it is
    case SYS_mmap:
      return (a[3] & 0x10) != 0;  // MAP_FIXED: in the place of something else
    case SYS_ioctl:
      return !OnlyAsks(a[1]);
    case SYS_flock:
      return (a[1] & 8) != 0;  // LOCK_UN
    case SYS_fcntl:
      switch (a[1]) {
        case F_SETLK:
        case F_SETLKW:
        case F_OFD_SETLK:
        case F_OFD_SETLKW:
          return peek(a[2], 2) == F_UNLCK;
        case F_SETFL:
        case F_SETOWN:
        case F_SETSIG:
        case F_SETLEASE:
        case F_NOTIFY:
        case F_SETPIPE_SZ:
        case F_ADD_SEALS:
        case F_SET_RW_HINT:
        case F_SET_FILE_RW_HINT:
          return true;
        default:
          return false;
      }
    case SYS_semop:
    case SYS_semtimedop:
      // One of them releases.
      for (uint64_t i = 0; i < a[2] && i < 500; ++i) {
        if (static_cast<int16_t>(peek(a[1] + 6 * i + 2, 2)) > 0) return true;
      }
      return false;
    case SYS_semctl:
      return !OnlyAsksIpc(a[2]);
    case SYS_shmctl:
    case SYS_msgctl:
      return !OnlyAsksIpc(a[1]);
    case SYS_io_uring_enter:
      return a[1] != 0;  // submits something
    case SYS_prlimit64:
      return a[2] != 0;
    default:
      return true;
  }
}

// A call with this result has let others see nothing, nor woken them. (One that is still being
// carried out, or was interrupted, may have.)
constexpr bool ChangedNothing(int64_t result) {
  return result < 0 && result > -4096 && result != -EINPROGRESS && result != -EINTR &&
         result != -EIO;
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_CALL_ORDER_H_
