#include "recorder/syscalls/output_trust.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace hindsight {
namespace {

// Their first argument is a descriptor.
constexpr int64_t kOnFile[] = {
    SYS_read,     SYS_pread64,   SYS_write,    SYS_pwrite64, SYS_writev,     SYS_pwritev,
    SYS_pwritev2, SYS_ioctl,     SYS_recvfrom, SYS_sendto,   SYS_getdents64, SYS_lseek,
    SYS_fsync,    SYS_fdatasync, SYS_mmap,     SYS_sendfile,
};

// What these store does not depend on a driver, unless they are in kOnFile.
constexpr int64_t kStoreOnlyListedOutputs[] = {
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
};

constexpr uint64_t kFileRequests[] = {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX};

constexpr int kSolXdp = 283;

template <typename Range, typename Value>
bool Contains(const Range& range, Value value) {
  return std::find(std::begin(range), std::end(range), value) != std::end(range);
}

// Terminals, and devices like /dev/null.
bool IsOrdinaryDevice(dev_t device) {
  constexpr unsigned kMemoryDevices = 1, kTerminals = 4, kTerminalAliases = 5;
  constexpr unsigned kFirstPty = 136, kLastPty = 143;
  constexpr unsigned kPlain[] = {3 /* null */, 5 /* zero */, 7 /* full */, 8, 9 /* (u)random */};
  const unsigned kind = major(device);
  if (kind == kMemoryDevices) return Contains(kPlain, minor(device));
  return kind == kTerminals || kind == kTerminalAliases || (kind >= kFirstPty && kind <= kLastPty);
}

FileKind KindInProc(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), target, sizeof(target));
  if (length <= 0) return FileKind::kMemory;  // not known: assume the worse
  const absl::string_view name(target, length);
  return absl::StartsWith(name.substr(name.rfind('/') + 1), "mem") ? FileKind::kMemory
                                                                   : FileKind::kOther;
}

}  // namespace

bool StoresOnlyListedOutputs(int64_t number, const uint64_t* arguments) {
  if (number == SYS_ioctl) return Contains(kFileRequests, arguments[1]);
  // Truncating a file takes away what is mapped of it.
  if (number == SYS_open && (arguments[1] & O_TRUNC) != 0) return false;
  if (number == SYS_openat && (arguments[2] & O_TRUNC) != 0) return false;
  return Contains(kStoreOnlyListedOutputs, number);
}

std::optional<int> FileOfCall(int64_t number, const uint64_t* arguments) {
  constexpr uint64_t kNoFile = ~uint64_t{0};
  uint64_t file = kNoFile;
  if (number == SYS_mmap) {
    file = arguments[4];
  } else if (number == SYS_splice || number == SYS_copy_file_range) {
    file = arguments[2];
  } else if (Contains(kOnFile, number)) {
    file = arguments[0];
  }
  const int descriptor = static_cast<int>(file);
  return descriptor < 0 ? std::nullopt : std::optional<int>(descriptor);
}

bool AllowsLaterStores(int64_t number, const uint64_t* arguments) {
  if (number == SYS_userfaultfd) return true;
  // Packets are stored in buffers of the program.
  return number == SYS_setsockopt && static_cast<int>(arguments[1]) == kSolXdp;
}

FileKind KindOfFile(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return FileKind::kOther;
  switch (status.st_mode & S_IFMT) {
    case S_IFDIR:
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFBLK:
      return FileKind::kOrdinary;
    case S_IFCHR:
      return IsOrdinaryDevice(status.st_rdev) ? FileKind::kOrdinary : FileKind::kDevice;
    case S_IFREG:
      break;
    default:
      return FileKind::kOther;
  }
  if (status.st_size != 0) return FileKind::kOrdinary;
  struct statfs system;  // files of /proc have no size
  if (statfs(path.c_str(), &system) != 0) return FileKind::kOther;
  return system.f_type == PROC_SUPER_MAGIC ? KindInProc(path) : FileKind::kOrdinary;
}

}  // namespace hindsight
