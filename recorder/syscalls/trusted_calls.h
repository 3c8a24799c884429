// Which system calls are trusted to store nowhere but where a table says: by their outputs alone
// one knows what of a process's memory they have changed.
//
// A store that is missing in the table is seen late, and the program goes on with old bytes until
// it is. So only common calls are trusted, on files that have no driver of their own.
//
// Stateless; also for code without a library.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_TRUSTED_CALLS_H_
#define HINDSIGHT_RECORDER_SYSCALLS_TRUSTED_CALLS_H_

#include <asm/ioctls.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace hindsight {

namespace trusted_calls {

// System calls by number, of those that there are.
class CallSet {
 public:
  template <uint64_t kCount>
  explicit constexpr CallSet(const int64_t (&numbers)[kCount]) {
    for (const int64_t number : numbers) bits_[number / 64] |= uint64_t{1} << number % 64;
  }
  constexpr bool Has(int64_t number) const {
    return number >= 0 && number < kNumbers && (bits_[number / 64] >> number % 64 & 1) != 0;
  }

 private:
  static constexpr int64_t kNumbers = 512;
  uint64_t bits_[kNumbers / 64] = {};
};

// Their first argument is a descriptor.
inline constexpr CallSet kOnFile({
    SYS_read,     SYS_pread64,   SYS_write,    SYS_pwrite64, SYS_writev,     SYS_pwritev,
    SYS_pwritev2, SYS_ioctl,     SYS_recvfrom, SYS_sendto,   SYS_getdents64, SYS_lseek,
    SYS_fsync,    SYS_fdatasync, SYS_mmap,     SYS_sendfile, SYS_readv,      SYS_preadv,
    SYS_recvmsg,  SYS_sendmsg,   SYS_accept,   SYS_accept4,  SYS_getsockopt, SYS_setsockopt,
});

// What these store does not depend on a driver, unless they are in kOnFile.
inline constexpr CallSet kStoreOnlyListedOutputs({
    SYS_read,
    SYS_pread64,
    SYS_write,
    SYS_pwrite64,
    SYS_writev,
    SYS_open,
    SYS_openat,
    SYS_close,
    SYS_stat,
    SYS_lstat,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_access,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlink,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_chdir,
    SYS_fchdir,
    SYS_lseek,
    SYS_fcntl,
    SYS_dup,
    SYS_dup2,
    SYS_dup3,
    SYS_pipe,
    SYS_pipe2,
    SYS_fsync,
    SYS_fdatasync,
    SYS_flock,
    SYS_fadvise64,
    SYS_mkdir,
    SYS_rmdir,
    SYS_unlink,
    SYS_unlinkat,
    SYS_rename,
    SYS_renameat2,
    SYS_link,
    SYS_symlink,
    SYS_chmod,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_chown,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_umask,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fgetxattr,
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_brk,
    SYS_madvise,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_sigaltstack,
    SYS_kill,
    SYS_tgkill,
    SYS_alarm,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getpgrp,
    SYS_getpgid,
    SYS_getsid,
    SYS_getgroups,
    SYS_getresuid,
    SYS_getresgid,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrlimit,
    SYS_prlimit64,
    SYS_getrusage,
    SYS_times,
    SYS_time,
    SYS_gettimeofday,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_sched_yield,
    SYS_futex,
    SYS_poll,
    SYS_ppoll,
    SYS_select,
    SYS_pselect6,
    SYS_epoll_wait,
    SYS_epoll_ctl,
    SYS_wait4,
    SYS_getrandom,
    SYS_socket,
    SYS_connect,
    SYS_sendto,
    SYS_recvfrom,
    SYS_set_tid_address,
    SYS_set_robust_list,
    SYS_readv,
    SYS_preadv,
    SYS_pwritev,
    SYS_accept,
    SYS_accept4,
    SYS_getsockname,
    SYS_getpeername,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_bind,
    SYS_listen,
    SYS_shutdown,
    SYS_socketpair,
    SYS_setsockopt,
    SYS_epoll_create1,
    SYS_epoll_pwait,
    SYS_eventfd2,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_rt_sigtimedwait,
    SYS_rt_sigsuspend,
    SYS_pause,
    SYS_setitimer,
    SYS_getitimer,
    SYS_waitid,
    SYS_sched_getaffinity,
    SYS_getcpu,
    SYS_getpriority,
    SYS_setpgid,
    SYS_setsid,
    SYS_mkdirat,
    SYS_linkat,
    SYS_symlinkat,
    SYS_renameat,
});

inline constexpr uint64_t kFileRequests[] = {TCGETS,  TIOCGWINSZ, FIONREAD,
                                             FIONBIO, FIOCLEX,    FIONCLEX};

inline constexpr int kSolXdp = 283;

template <typename Value, uint64_t kCount>
constexpr bool Contains(const Value (&values)[kCount], Value value) {
  for (const Value one : values) {
    if (one == value) return true;
  }
  return false;
}

}  // namespace trusted_calls

// Whether call `number` with its six `arguments` stores nowhere but where the table says, provided
// that the file it acts on is an ordinary one.
constexpr bool StoresOnlyListedOutputs(int64_t number, const uint64_t* arguments) {
  if (number == SYS_ioctl) {
    return trusted_calls::Contains(trusted_calls::kFileRequests, arguments[1]);
  }
  // Some of other levels have pointers in what is passed (TCP_ZEROCOPY_RECEIVE).
  if (number == SYS_getsockopt) return arguments[1] == SOL_SOCKET;
  // Truncating a file takes away what is mapped of it.
  if (number == SYS_open && (arguments[1] & O_TRUNC) != 0) return false;
  if (number == SYS_openat && (arguments[2] & O_TRUNC) != 0) return false;
  return trusted_calls::kStoreOnlyListedOutputs.Has(number);
}

inline constexpr int kNoFile = -1;

// The descriptor that the call reads, writes or controls, where its kind matters; negative: none.
constexpr int FileOfCall(int64_t number, const uint64_t* arguments) {
  if (number == SYS_mmap) return static_cast<int>(arguments[4]);
  if (number == SYS_splice || number == SYS_copy_file_range) return static_cast<int>(arguments[2]);
  const bool first = trusted_calls::kOnFile.Has(number);
  return first ? static_cast<int>(arguments[0]) : kNoFile;
}

// Makes the kernel write to the process's private memory at times of its own choosing. (Memory that
// drivers, perf_event_open or packet sockets write to is mapped shared.)
constexpr bool StartsAsynchronousWrites(int64_t number) {
  return number == SYS_io_setup || number == SYS_io_uring_setup;
}

// Whether after the call, which has succeeded, others than the process's threads may store to its
// private memory at any time. (Those whose stores the emulator follows: StartsAsynchronousWrites.)
constexpr bool AllowsLaterStores(int64_t number, const uint64_t* arguments) {
  if (number == SYS_userfaultfd) return true;
  // Packets are stored in buffers of the program.
  return number == SYS_setsockopt && static_cast<int>(arguments[1]) == trusted_calls::kSolXdp;
}

// Whether a character device is a terminal, or one like /dev/null.
constexpr bool IsOrdinaryDevice(uint32_t major, uint32_t minor) {
  constexpr uint32_t kMemoryDevices = 1, kTerminals = 4, kTerminalAliases = 5;
  constexpr uint32_t kFirstPty = 136, kLastPty = 143;
  constexpr uint32_t kPlain[] = {3 /* null */, 5 /* zero */, 7 /* full */, 8, 9 /* (u)random */};
  if (major == kMemoryDevices) return trusted_calls::Contains(kPlain, minor);
  return major == kTerminals || major == kTerminalAliases ||
         (major >= kFirstPty && major <= kLastPty);
}

enum class FileKind : uint8_t {
  // A file of a file system, a directory, pipe, socket, terminal, or one like /dev/null.
  kOrdinary,
  // A process's memory (/proc/PID/mem).
  kMemory,
  // A device with a driver of its own, which may later store to memory that it was given.
  kDevice,
  // A file of /proc, or of no file system: anything.
  kOther,
};

// What stat says of the file decides on its kind, which is put in `kind`. False: it is an empty
// one, and of /proc or not; files there have no size.
constexpr bool KindByStat(const struct stat& file, FileKind* kind) {
  const auto major = static_cast<uint32_t>(file.st_rdev >> 8 & 0xfff);
  const auto minor = static_cast<uint32_t>((file.st_rdev & 0xff) | (file.st_rdev >> 12 & 0xfff00));
  switch (file.st_mode & S_IFMT) {
    case S_IFDIR:
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFBLK:
      *kind = FileKind::kOrdinary;
      return true;
    case S_IFCHR:
      *kind = IsOrdinaryDevice(major, minor) ? FileKind::kOrdinary : FileKind::kDevice;
      return true;
    case S_IFREG:
      *kind = FileKind::kOrdinary;
      return file.st_size != 0;
    default:
      *kind = FileKind::kOther;
      return true;
  }
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_TRUSTED_CALLS_H_
