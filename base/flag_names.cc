#include "base/flag_names.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace hindsight {
namespace {

struct Name {
  uint64_t value;
  const char* text;
};

#define NAMED(constant) \
  { static_cast<uint64_t>(constant), #constant }

// How a number is made of named ones.
struct Names {
  uint64_t enum_mask;  // of these bits one value is meant; the others are flags
  absl::Span<const Name> values, flags;
};

constexpr Name kAccessModes[] = {NAMED(O_RDONLY), NAMED(O_WRONLY), NAMED(O_RDWR)};
// Those that hold the bits of others come first.
constexpr Name kOpen[] = {NAMED(O_TMPFILE),  NAMED(O_SYNC),      NAMED(O_DSYNC),  NAMED(O_CREAT),
                          NAMED(O_EXCL),     NAMED(O_NOCTTY),    NAMED(O_TRUNC),  NAMED(O_APPEND),
                          NAMED(O_NONBLOCK), NAMED(O_DIRECTORY), NAMED(O_DIRECT), NAMED(O_NOFOLLOW),
                          NAMED(O_NOATIME),  NAMED(O_CLOEXEC),   NAMED(O_PATH),   NAMED(O_ASYNC)};
constexpr Name kNoProtection[] = {NAMED(PROT_NONE)};
constexpr Name kProtection[] = {NAMED(PROT_READ), NAMED(PROT_WRITE), NAMED(PROT_EXEC),
                                NAMED(PROT_GROWSDOWN), NAMED(PROT_GROWSUP)};
constexpr Name kMapTypes[] = {NAMED(MAP_SHARED), NAMED(MAP_PRIVATE), NAMED(MAP_SHARED_VALIDATE)};
constexpr Name kMap[] = {NAMED(MAP_FIXED),    NAMED(MAP_ANONYMOUS), NAMED(MAP_GROWSDOWN),
                         NAMED(MAP_LOCKED),   NAMED(MAP_DENYWRITE), NAMED(MAP_NORESERVE),
                         NAMED(MAP_POPULATE), NAMED(MAP_NONBLOCK),  NAMED(MAP_STACK),
                         NAMED(MAP_HUGETLB),  NAMED(MAP_SYNC),      NAMED(MAP_FIXED_NOREPLACE)};
constexpr Name kRemap[] = {NAMED(MREMAP_MAYMOVE), NAMED(MREMAP_FIXED), NAMED(MREMAP_DONTUNMAP)};
constexpr Name kAdvice[] = {
    NAMED(MADV_NORMAL),        NAMED(MADV_RANDOM),   NAMED(MADV_SEQUENTIAL),
    NAMED(MADV_WILLNEED),      NAMED(MADV_DONTNEED), NAMED(MADV_FREE),
    NAMED(MADV_REMOVE),        NAMED(MADV_DONTFORK), NAMED(MADV_DOFORK),
    NAMED(MADV_MERGEABLE),     NAMED(MADV_HUGEPAGE), NAMED(MADV_NOHUGEPAGE),
    NAMED(MADV_DONTDUMP),      NAMED(MADV_DODUMP),   NAMED(MADV_WIPEONFORK),
    NAMED(MADV_COLD),          NAMED(MADV_PAGEOUT),  NAMED(MADV_POPULATE_READ),
    NAMED(MADV_POPULATE_WRITE)};
constexpr Name kFutexOperations[] = {
    NAMED(FUTEX_WAIT),           NAMED(FUTEX_WAKE),        NAMED(FUTEX_FD),
    NAMED(FUTEX_REQUEUE),        NAMED(FUTEX_CMP_REQUEUE), NAMED(FUTEX_WAKE_OP),
    NAMED(FUTEX_LOCK_PI),        NAMED(FUTEX_UNLOCK_PI),   NAMED(FUTEX_TRYLOCK_PI),
    NAMED(FUTEX_WAIT_BITSET),    NAMED(FUTEX_WAKE_BITSET), NAMED(FUTEX_WAIT_REQUEUE_PI),
    NAMED(FUTEX_CMP_REQUEUE_PI), NAMED(FUTEX_LOCK_PI2)};
constexpr Name kFutex[] = {NAMED(FUTEX_PRIVATE_FLAG), NAMED(FUTEX_CLOCK_REALTIME)};
constexpr Name kSignals[] = {NAMED(SIGHUP),  NAMED(SIGINT),    NAMED(SIGQUIT), NAMED(SIGILL),
                             NAMED(SIGTRAP), NAMED(SIGABRT),   NAMED(SIGBUS),  NAMED(SIGFPE),
                             NAMED(SIGKILL), NAMED(SIGUSR1),   NAMED(SIGSEGV), NAMED(SIGUSR2),
                             NAMED(SIGPIPE), NAMED(SIGALRM),   NAMED(SIGTERM), NAMED(SIGSTKFLT),
                             NAMED(SIGCHLD), NAMED(SIGCONT),   NAMED(SIGSTOP), NAMED(SIGTSTP),
                             NAMED(SIGTTIN), NAMED(SIGTTOU),   NAMED(SIGURG),  NAMED(SIGXCPU),
                             NAMED(SIGXFSZ), NAMED(SIGVTALRM), NAMED(SIGPROF), NAMED(SIGWINCH),
                             NAMED(SIGIO),   NAMED(SIGPWR),    NAMED(SIGSYS)};
constexpr Name kClone[] = {NAMED(CLONE_VM),
                           NAMED(CLONE_FS),
                           NAMED(CLONE_FILES),
                           NAMED(CLONE_SIGHAND),
                           NAMED(CLONE_PIDFD),
                           NAMED(CLONE_PTRACE),
                           NAMED(CLONE_VFORK),
                           NAMED(CLONE_PARENT),
                           NAMED(CLONE_THREAD),
                           NAMED(CLONE_NEWNS),
                           NAMED(CLONE_SYSVSEM),
                           NAMED(CLONE_SETTLS),
                           NAMED(CLONE_PARENT_SETTID),
                           NAMED(CLONE_CHILD_CLEARTID),
                           NAMED(CLONE_UNTRACED),
                           NAMED(CLONE_CHILD_SETTID),
                           NAMED(CLONE_NEWCGROUP),
                           NAMED(CLONE_NEWUTS),
                           NAMED(CLONE_NEWIPC),
                           NAMED(CLONE_NEWUSER),
                           NAMED(CLONE_NEWPID),
                           NAMED(CLONE_NEWNET),
                           NAMED(CLONE_IO)};
constexpr Name kSeek[] = {NAMED(SEEK_SET), NAMED(SEEK_CUR), NAMED(SEEK_END), NAMED(SEEK_DATA),
                          NAMED(SEEK_HOLE)};
constexpr Name kNoAccess[] = {NAMED(F_OK)};
constexpr Name kAccess[] = {NAMED(R_OK), NAMED(W_OK), NAMED(X_OK)};
constexpr Name kAt[] = {NAMED(AT_SYMLINK_NOFOLLOW), NAMED(AT_REMOVEDIR),
                        NAMED(AT_SYMLINK_FOLLOW),   NAMED(AT_NO_AUTOMOUNT),
                        NAMED(AT_EMPTY_PATH),       NAMED(AT_STATX_FORCE_SYNC),
                        NAMED(AT_STATX_DONT_SYNC)};
constexpr Name kSignalMask[] = {NAMED(SIG_BLOCK), NAMED(SIG_UNBLOCK), NAMED(SIG_SETMASK)};
constexpr Name kFcntl[] = {
    NAMED(F_DUPFD),      NAMED(F_GETFD),     NAMED(F_SETFD),         NAMED(F_GETFL),
    NAMED(F_SETFL),      NAMED(F_GETLK),     NAMED(F_SETLK),         NAMED(F_SETLKW),
    NAMED(F_SETOWN),     NAMED(F_GETOWN),    NAMED(F_DUPFD_CLOEXEC), NAMED(F_SETPIPE_SZ),
    NAMED(F_GETPIPE_SZ), NAMED(F_ADD_SEALS), NAMED(F_GET_SEALS),     NAMED(F_OFD_SETLK)};
constexpr Name kFamilies[] = {NAMED(AF_UNSPEC),  NAMED(AF_UNIX),   NAMED(AF_INET),  NAMED(AF_INET6),
                              NAMED(AF_NETLINK), NAMED(AF_PACKET), NAMED(AF_VSOCK), NAMED(AF_ALG)};
constexpr Name kSocketTypes[] = {NAMED(SOCK_STREAM), NAMED(SOCK_DGRAM), NAMED(SOCK_RAW),
                                 NAMED(SOCK_SEQPACKET)};
constexpr Name kSocketFlags[] = {NAMED(SOCK_NONBLOCK), NAMED(SOCK_CLOEXEC)};
constexpr Name kMessage[] = {NAMED(MSG_OOB),      NAMED(MSG_PEEK), NAMED(MSG_TRUNC),
                             NAMED(MSG_DONTWAIT), NAMED(MSG_EOR),  NAMED(MSG_WAITALL),
                             NAMED(MSG_NOSIGNAL), NAMED(MSG_MORE), NAMED(MSG_CMSG_CLOEXEC)};
constexpr Name kSocketLevels[] = {
    NAMED(SOL_SOCKET), {6, "SOL_TCP"}, {0, "SOL_IP"}, {41, "SOL_IPV6"}};
constexpr Name kEpollOperations[] = {NAMED(EPOLL_CTL_ADD), NAMED(EPOLL_CTL_MOD),
                                     NAMED(EPOLL_CTL_DEL)};
constexpr Name kEpollCreate[] = {NAMED(EPOLL_CLOEXEC)};
constexpr Name kEventFd[] = {NAMED(EFD_SEMAPHORE), NAMED(EFD_CLOEXEC), NAMED(EFD_NONBLOCK)};
constexpr Name kPipe[] = {NAMED(O_CLOEXEC), NAMED(O_NONBLOCK), NAMED(O_DIRECT)};
constexpr Name kClocks[] = {NAMED(CLOCK_REALTIME),           NAMED(CLOCK_MONOTONIC),
                            NAMED(CLOCK_PROCESS_CPUTIME_ID), NAMED(CLOCK_THREAD_CPUTIME_ID),
                            NAMED(CLOCK_MONOTONIC_RAW),      NAMED(CLOCK_REALTIME_COARSE),
                            NAMED(CLOCK_MONOTONIC_COARSE),   NAMED(CLOCK_BOOTTIME)};
constexpr Name kResources[] = {NAMED(RLIMIT_CPU),    NAMED(RLIMIT_FSIZE),   NAMED(RLIMIT_DATA),
                               NAMED(RLIMIT_STACK),  NAMED(RLIMIT_CORE),    NAMED(RLIMIT_NPROC),
                               NAMED(RLIMIT_NOFILE), NAMED(RLIMIT_MEMLOCK), NAMED(RLIMIT_AS)};
constexpr Name kWait[] = {NAMED(WNOHANG), NAMED(WUNTRACED), NAMED(WEXITED), NAMED(WCONTINUED),
                          NAMED(WNOWAIT)};
constexpr Name kPrctl[] = {NAMED(PR_SET_PDEATHSIG),    NAMED(PR_GET_DUMPABLE),
                           NAMED(PR_SET_DUMPABLE),     NAMED(PR_SET_NAME),
                           NAMED(PR_GET_NAME),         NAMED(PR_SET_SECCOMP),
                           NAMED(PR_CAPBSET_READ),     NAMED(PR_SET_TSC),
                           NAMED(PR_SET_NO_NEW_PRIVS), NAMED(PR_SET_CHILD_SUBREAPER),
                           NAMED(PR_SET_TIMERSLACK),   NAMED(PR_SET_MM)};
constexpr Name kArchPrctl[] = {
    NAMED(ARCH_SET_GS),    NAMED(ARCH_SET_FS),    NAMED(ARCH_GET_FS),         NAMED(ARCH_GET_GS),
    NAMED(ARCH_GET_CPUID), NAMED(ARCH_SET_CPUID), {0x3001, "ARCH_CET_STATUS"}};
constexpr Name kRandom[] = {NAMED(GRND_NONBLOCK), NAMED(GRND_RANDOM)};
constexpr Name kMemfd[] = {NAMED(MFD_CLOEXEC), NAMED(MFD_ALLOW_SEALING), NAMED(MFD_HUGETLB)};
constexpr Name kSync[] = {NAMED(MS_ASYNC), NAMED(MS_INVALIDATE), NAMED(MS_SYNC)};
constexpr Name kMembarrier[] = {NAMED(MEMBARRIER_CMD_QUERY), NAMED(MEMBARRIER_CMD_GLOBAL),
                                NAMED(MEMBARRIER_CMD_PRIVATE_EXPEDITED),
                                NAMED(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)};
#undef NAMED

constexpr uint64_t kAll = ~uint64_t{0};

Names ValuesOf(absl::Span<const Name> values) { return {kAll, values, {}}; }
Names FlagsOf(absl::Span<const Name> flags) { return {0, {}, flags}; }

Names NamesOfMemory(FlagKind kind) {
  switch (kind) {
    case FlagKind::kProtection:
      // "None" is the value 0 of no bits at all.
      return {0, kNoProtection, kProtection};
    case FlagKind::kMap:
      return {MAP_TYPE, kMapTypes, kMap};
    case FlagKind::kRemap:
      return FlagsOf(kRemap);
    case FlagKind::kAdvice:
      return ValuesOf(kAdvice);
    case FlagKind::kMemfd:
      return FlagsOf(kMemfd);
    case FlagKind::kSync:
      return FlagsOf(kSync);
    case FlagKind::kMembarrier:
      return ValuesOf(kMembarrier);
    default:
      return {};
  }
}

Names NamesOfFiles(FlagKind kind) {
  switch (kind) {
    case FlagKind::kOpen:
      return {O_ACCMODE, kAccessModes, kOpen};
    case FlagKind::kSeek:
      return ValuesOf(kSeek);
    case FlagKind::kAccess:
      return {0, kNoAccess, kAccess};
    case FlagKind::kAt:
      return FlagsOf(kAt);
    case FlagKind::kFcntl:
      return ValuesOf(kFcntl);
    case FlagKind::kPipe:
      return FlagsOf(kPipe);
    case FlagKind::kEpollOperation:
      return ValuesOf(kEpollOperations);
    case FlagKind::kEpollCreate:
      return FlagsOf(kEpollCreate);
    case FlagKind::kEventFd:
      return FlagsOf(kEventFd);
    case FlagKind::kAddressFamily:
      return ValuesOf(kFamilies);
    case FlagKind::kSocketType:
      return {0xf, kSocketTypes, kSocketFlags};
    case FlagKind::kMessage:
      return FlagsOf(kMessage);
    case FlagKind::kSocketLevel:
      return ValuesOf(kSocketLevels);
    default:
      return NamesOfMemory(kind);
  }
}

Names NamesOf(FlagKind kind) {
  switch (kind) {
    case FlagKind::kFutex:
      return {FUTEX_CMD_MASK & 0xffff, kFutexOperations, kFutex};
    case FlagKind::kClone:
      return {CSIGNAL, kSignals, kClone};
    case FlagKind::kSignalMask:
      return ValuesOf(kSignalMask);
    case FlagKind::kSignal:
      return ValuesOf(kSignals);
    case FlagKind::kClock:
      return ValuesOf(kClocks);
    case FlagKind::kResource:
      return ValuesOf(kResources);
    case FlagKind::kWait:
      return FlagsOf(kWait);
    case FlagKind::kPrctl:
      return ValuesOf(kPrctl);
    case FlagKind::kArchPrctl:
      return ValuesOf(kArchPrctl);
    case FlagKind::kRandom:
      return FlagsOf(kRandom);
    default:
      return NamesOfFiles(kind);
  }
}

}  // namespace

std::string FlagText(FlagKind kind, uint64_t value) {
  const Names names = NamesOf(kind);
  std::string text;
  const auto add = [&text](absl::string_view part) {
    absl::StrAppend(&text, text.empty() ? "" : "|", part);
  };
  // A value of no bits (PROT_NONE) is only meant where there are no flags.
  if (names.enum_mask != 0 || value == 0) {
    for (const Name& name : names.values) {
      if (name.value != (value & (names.enum_mask != 0 ? names.enum_mask : kAll))) continue;
      add(name.text);
      value &= ~(names.enum_mask != 0 ? names.enum_mask : kAll);
      break;
    }
  }
  for (const Name& name : names.flags) {
    if (name.value == 0 || (value & name.value) != name.value) continue;
    add(name.text);
    value &= ~name.value;
  }
  if (value != 0) add(absl::StrCat("0x", absl::Hex(value)));
  return text.empty() ? "0" : text;
}

}  // namespace hindsight
