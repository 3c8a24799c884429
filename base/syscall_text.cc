#include "base/syscall_text.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "base/flag_names.h"
#include "base/syscall_names.h"

namespace hindsight {
namespace {

constexpr size_t kLongestPath = 256;
constexpr size_t kLongestData = 32;  // as strace

// The arguments of a call, a letter for each:
//   d  signed decimal   u  unsigned   x  hexadecimal   p  pointer
//   s  path or other text that ends with 0   b  bytes written, as many as the next argument says
//   D  directory's descriptor   o  flags of open   m  rights of a new file, octal
// and a letter for each kind of flags, below.
struct Signature {
  int64_t number;
  const char* arguments;
};

struct FlagLetter {
  char letter;
  FlagKind kind;
};

constexpr FlagLetter kFlagLetters[] = {
    {'o', FlagKind::kOpen},        {'P', FlagKind::kProtection},
    {'M', FlagKind::kMap},         {'R', FlagKind::kRemap},
    {'v', FlagKind::kAdvice},      {'F', FlagKind::kFutex},
    {'C', FlagKind::kClone},       {'w', FlagKind::kSeek},
    {'A', FlagKind::kAccess},      {'a', FlagKind::kAt},
    {'H', FlagKind::kSignalMask},  {'S', FlagKind::kSignal},
    {'f', FlagKind::kFcntl},       {'K', FlagKind::kAddressFamily},
    {'T', FlagKind::kSocketType},  {'G', FlagKind::kMessage},
    {'L', FlagKind::kSocketLevel}, {'e', FlagKind::kEpollOperation},
    {'E', FlagKind::kEpollCreate}, {'V', FlagKind::kEventFd},
    {'I', FlagKind::kPipe},        {'k', FlagKind::kClock},
    {'l', FlagKind::kResource},    {'W', FlagKind::kWait},
    {'r', FlagKind::kPrctl},       {'q', FlagKind::kArchPrctl},
    {'n', FlagKind::kRandom},      {'N', FlagKind::kMemfd},
    {'y', FlagKind::kSync},        {'B', FlagKind::kMembarrier},
};

constexpr Signature kFileCalls[] = {
    {SYS_read, "dpu"},
    {SYS_write, "dbu"},
    {SYS_open, "som"},
    {SYS_close, "d"},
    {SYS_stat, "sp"},
    {SYS_fstat, "dp"},
    {SYS_lstat, "sp"},
    {SYS_poll, "pud"},
    {SYS_lseek, "ddw"},
    {SYS_ioctl, "dxp"},
    {SYS_pread64, "dpud"},
    {SYS_pwrite64, "dbud"},
    {SYS_readv, "dpd"},
    {SYS_writev, "dpd"},
    {SYS_access, "sA"},
    {SYS_pipe, "p"},
    {SYS_pipe2, "pI"},
    {SYS_dup, "d"},
    {SYS_dup2, "dd"},
    {SYS_dup3, "ddo"},
    {SYS_fcntl, "dfx"},
    {SYS_flock, "dd"},
    {SYS_fsync, "d"},
    {SYS_fdatasync, "d"},
    {SYS_truncate, "sd"},
    {SYS_ftruncate, "dd"},
    {SYS_getdents64, "dpu"},
    {SYS_getcwd, "pu"},
    {SYS_chdir, "s"},
    {SYS_fchdir, "d"},
    {SYS_rename, "ss"},
    {SYS_mkdir, "sm"},
    {SYS_rmdir, "s"},
    {SYS_creat, "sm"},
    {SYS_link, "ss"},
    {SYS_unlink, "s"},
    {SYS_symlink, "ss"},
    {SYS_readlink, "spu"},
    {SYS_chmod, "sm"},
    {SYS_fchmod, "dm"},
    {SYS_chown, "sdd"},
    {SYS_fchown, "ddd"},
    {SYS_umask, "m"},
    {SYS_statfs, "sp"},
    {SYS_fstatfs, "dp"},
    {SYS_chroot, "s"},
    {SYS_openat, "Dsom"},
    {SYS_mkdirat, "Dsm"},
    {SYS_newfstatat, "Dspa"},
    {SYS_unlinkat, "Dsa"},
    {SYS_renameat, "DsDs"},
    {SYS_renameat2, "DsDsx"},
    {SYS_linkat, "DsDsa"},
    {SYS_symlinkat, "sDs"},
    {SYS_readlinkat, "Dspu"},
    {SYS_fchmodat, "Dsm"},
    {SYS_faccessat, "DsA"},
    {SYS_faccessat2, "DsAa"},
    {SYS_utimensat, "Dspa"},
    {SYS_statx, "Dsaxp"},
    {SYS_sendfile, "ddpu"},
    {SYS_splice, "dpdpux"},
    {SYS_copy_file_range, "dpdpux"},
    {SYS_fallocate, "dxdd"},
    {SYS_fadvise64, "dddd"},
    {SYS_inotify_add_watch, "dsx"},
    {SYS_select, "dpppp"},
    {SYS_pselect6, "dppppp"},
    {SYS_ppoll, "puppu"},
    {SYS_epoll_create1, "E"},
    {SYS_epoll_ctl, "dedp"},
    {SYS_epoll_wait, "dpdd"},
    {SYS_epoll_pwait, "dpddpu"},
    {SYS_eventfd2, "uV"},
    {SYS_timerfd_create, "kx"},
    {SYS_memfd_create, "sN"},
    {SYS_close_range, "uux"},
    {SYS_getxattr, "sspu"},
};

constexpr Signature kMemoryAndProcessCalls[] = {
    {SYS_mmap, "puPMdx"},
    {SYS_mprotect, "puP"},
    {SYS_munmap, "pu"},
    {SYS_brk, "p"},
    {SYS_mremap, "puuRp"},
    {SYS_msync, "puy"},
    {SYS_madvise, "puv"},
    {SYS_mlock, "pu"},
    {SYS_munlock, "pu"},
    {SYS_rt_sigaction, "Sppu"},
    {SYS_rt_sigprocmask, "Hppu"},
    {SYS_rt_sigreturn, ""},
    {SYS_rt_sigsuspend, "pu"},
    {SYS_rt_sigtimedwait, "pppu"},
    {SYS_sigaltstack, "pp"},
    {SYS_sched_yield, ""},
    {SYS_pause, ""},
    {SYS_nanosleep, "pp"},
    {SYS_clock_nanosleep, "kxpp"},
    {SYS_clock_gettime, "kp"},
    {SYS_clock_getres, "kp"},
    {SYS_gettimeofday, "pp"},
    {SYS_time, "p"},
    {SYS_alarm, "u"},
    {SYS_setitimer, "dpp"},
    {SYS_getpid, ""},
    {SYS_getppid, ""},
    {SYS_gettid, ""},
    {SYS_getuid, ""},
    {SYS_getgid, ""},
    {SYS_geteuid, ""},
    {SYS_getegid, ""},
    {SYS_getpgid, "d"},
    {SYS_setpgid, "dd"},
    {SYS_setsid, ""},
    {SYS_clone, "Cpppx"},
    {SYS_clone3, "pu"},
    {SYS_fork, ""},
    {SYS_vfork, ""},
    {SYS_execve, "spp"},
    {SYS_execveat, "Dsppa"},
    {SYS_exit, "d"},
    {SYS_exit_group, "d"},
    {SYS_wait4, "dpWp"},
    {SYS_waitid, "ddpWp"},
    {SYS_kill, "dS"},
    {SYS_tkill, "dS"},
    {SYS_tgkill, "ddS"},
    {SYS_futex, "pFuppu"},
    {SYS_set_tid_address, "p"},
    {SYS_set_robust_list, "pu"},
    {SYS_rseq, "puxx"},
    {SYS_arch_prctl, "qx"},
    {SYS_prctl, "rxxxx"},
    {SYS_getrlimit, "lp"},
    {SYS_setrlimit, "lp"},
    {SYS_prlimit64, "dlpp"},
    {SYS_getrusage, "dp"},
    {SYS_sysinfo, "p"},
    {SYS_uname, "p"},
    {SYS_sched_getaffinity, "dup"},
    {SYS_sched_setaffinity, "dup"},
    {SYS_getcpu, "ppp"},
    {SYS_getrandom, "pun"},
    {SYS_membarrier, "Bxd"},
    {SYS_restart_syscall, ""},
};

constexpr Signature kSocketCalls[] = {
    {SYS_socket, "KTd"},       {SYS_connect, "dpu"},     {SYS_accept, "dpp"},
    {SYS_accept4, "dppT"},     {SYS_sendto, "dbuGpu"},   {SYS_recvfrom, "dpuGpp"},
    {SYS_sendmsg, "dpG"},      {SYS_recvmsg, "dpG"},     {SYS_shutdown, "dd"},
    {SYS_bind, "dpu"},         {SYS_listen, "dd"},       {SYS_getsockname, "dpp"},
    {SYS_getpeername, "dpp"},  {SYS_socketpair, "KTdp"}, {SYS_setsockopt, "dLdpu"},
    {SYS_getsockopt, "dLdpp"}, {SYS_sendmmsg, "dpuG"},   {SYS_recvmmsg, "dpuGp"},
};

// What is not in the tables is shown with its six registers.
const char* ArgumentsOf(int64_t number) {
  for (const absl::Span<const Signature> table :
       {absl::Span<const Signature>(kFileCalls),
        absl::Span<const Signature>(kMemoryAndProcessCalls),
        absl::Span<const Signature>(kSocketCalls)}) {
    for (const Signature& call : table) {
      if (call.number == number) return call.arguments;
    }
  }
  return "xxxxxx";
}

std::string PointerText(uint64_t value) {
  return value == 0 ? "NULL" : absl::StrCat("0x", absl::Hex(value));
}

// Up to `size` bytes, or up to the first 0 of text that ends with one.
std::string BytesText(const CallMemory& memory, uint64_t address, size_t size, bool ends_with_0) {
  std::array<uint8_t, kLongestPath> bytes;
  const size_t wanted = std::min(size, ends_with_0 ? kLongestPath : kLongestData);
  const size_t known =
      memory && address != 0 ? memory(address, absl::MakeSpan(bytes.data(), wanted)) : 0;
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  const size_t length = ends_with_0 ? strnlen(text, known) : known;
  // Text whose end is not known is no path.
  if (known == 0 || (ends_with_0 && length == known && known < wanted)) return PointerText(address);
  const bool cut = ends_with_0 ? length == wanted : length < size;
  return absl::StrCat("\"", absl::CHexEscape(absl::string_view(text, length)), "\"",
                      cut ? "..." : "");
}

std::string ArgumentText(char letter, absl::Span<const uint64_t> arguments, size_t i,
                         const CallMemory& memory) {
  const uint64_t value = arguments[i];
  switch (letter) {
    case 'd':
      // Most are ints, whose upper half means nothing; offsets are longer.
      return value >> 32 == 0 ? absl::StrCat(static_cast<int32_t>(value))
                              : absl::StrCat(static_cast<int64_t>(value));
    case 'u':
      return absl::StrCat(value);
    case 'p':
      return PointerText(value);
    case 's':
      return BytesText(memory, value, kLongestPath, /*ends_with_0=*/true);
    case 'b':
      return BytesText(memory, value, i + 1 < arguments.size() ? arguments[i + 1] : 0,
                       /*ends_with_0=*/false);
    case 'D':
      return static_cast<int32_t>(value) == AT_FDCWD ? "AT_FDCWD"
                                                     : absl::StrCat(static_cast<int32_t>(value));
    case 'm':
      return absl::StrFormat("0%o", value & 07777);
    default:
      break;
  }
  for (const FlagLetter& flag : kFlagLetters) {
    // All of these are ints.
    if (flag.letter == letter) return FlagText(flag.kind, value & 0xffffffff);
  }
  return absl::StrCat("0x", absl::Hex(value));
}

// How many of the arguments the call looks at: some depend on others.
size_t Used(absl::string_view letters, absl::Span<const uint64_t> arguments) {
  size_t used = std::min(letters.size(), arguments.size());
  const size_t flags = letters.find("om");
  if (flags != absl::string_view::npos && flags < used && (arguments[flags] & O_CREAT) == 0 &&
      (arguments[flags] & O_TMPFILE) != O_TMPFILE) {
    used = std::min(used, flags + 1);
  }
  return used;
}

}  // namespace

bool ShowsMemory(int64_t number) {
  const absl::string_view letters = ArgumentsOf(number);
  return letters.find_first_of("sb") != absl::string_view::npos;
}

std::string SyscallResultText(int64_t number, int64_t result) {
  constexpr int64_t kLargestErrno = 4095;
  if (result < 0 && result >= -kLargestErrno) {
    const int error = static_cast<int>(-result);
    // Those that the kernel keeps for itself, of calls that signals interrupt, have no name.
    const char* const name = strerrorname_np(error);
    if (name == nullptr) return absl::StrCat(result);
    return absl::StrCat("-1 ", name, " (", strerrordesc_np(error), ")");
  }
  const bool address = number == SYS_mmap || number == SYS_mremap || number == SYS_brk;
  return address ? PointerText(static_cast<uint64_t>(result)) : absl::StrCat(result);
}

std::string SyscallText(int64_t number, absl::Span<const uint64_t> arguments,
                        std::optional<int64_t> result, const CallMemory& memory) {
  const char* const name = SyscallName(number);
  const absl::string_view letters = ArgumentsOf(number);
  std::string text =
      name != nullptr ? absl::StrCat(name, "(") : absl::StrCat("system call ", number, "(");
  for (size_t i = 0; i < Used(letters, arguments); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", ArgumentText(letters[i], arguments, i, memory));
  }
  text += ')';
  if (result.has_value()) absl::StrAppend(&text, " = ", SyscallResultText(number, *result));
  return text;
}

}  // namespace hindsight
