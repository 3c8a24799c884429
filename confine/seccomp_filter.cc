#include "confine/seccomp_filter.h"

#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace hindsight {
namespace {

// An argument's lower half, masked, must have this value; with `whole` the upper half must be 0.
struct Condition {
  uint32_t argument;
  uint32_t mask;
  uint32_t value;
  bool whole = false;
};

constexpr uint32_t kAll = 0xffffffff;
// A descriptor may be opened for reading only, and nothing be made on the way.
constexpr uint32_t kWritingFlags = O_ACCMODE | O_CREAT | O_TRUNC | O_TMPFILE;
// A thread, in the namespaces of the others.
constexpr uint32_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

// With any arguments. Those that replay makes most often come first.
constexpr int kAlwaysAllowed[] = {
    SYS_rt_sigreturn, SYS_mprotect, SYS_futex, SYS_read, SYS_write, SYS_pread64, SYS_mmap,
    SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_close,
    // Open files, and the calls that fstat is implemented with.
    SYS_lseek, SYS_readv, SYS_writev, SYS_preadv, SYS_fstat, SYS_newfstatat, SYS_getdents64,
    SYS_flock, SYS_dup, SYS_dup2, SYS_dup3, SYS_pipe2, SYS_eventfd2, SYS_fsync, SYS_fadvise64,
    SYS_mincore, SYS_msync, SYS_getcwd,
    // Open sockets. A listening one accepts more.
    SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_recvfrom, SYS_recvmsg, SYS_accept,
    SYS_accept4, SYS_shutdown, SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_epoll_create1,
    SYS_epoll_ctl, SYS_epoll_wait, SYS_epoll_pwait,
    // Signals and threads of this process.
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_rt_sigsuspend,
    SYS_sigaltstack, SYS_restart_syscall, SYS_set_robust_list, SYS_set_tid_address, SYS_rseq,
    SYS_membarrier, SYS_exit, SYS_exit_group, SYS_sched_yield, SYS_sched_getaffinity,
    SYS_sched_setaffinity, SYS_getcpu,
    // Time and ids.
    SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday,
    SYS_time, SYS_times, SYS_getrusage, SYS_getpid, SYS_gettid, SYS_getppid, SYS_getuid,
    SYS_geteuid, SYS_getgid, SYS_getegid, SYS_uname, SYS_sysinfo, SYS_getrandom, SYS_getrlimit};

class Program {
 public:
  Program() {
    Load(offsetof(seccomp_data, arch));
    Add(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    Return(SECCOMP_RET_KILL_PROCESS);
    Load(offsetof(seccomp_data, nr));
  }

  void Allow(int number) { Answer(number, SECCOMP_RET_ALLOW); }
  void Answer(int number, uint32_t answer) {
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
    Return(answer);
  }
  // If all conditions are met. There may be several rules for a number.
  void AllowIf(int number, const std::vector<Condition>& conditions) {
    const size_t begin = code_.size();
    Add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 0);
    std::vector<size_t> exits;
    for (const Condition& condition : conditions) {
      const uint32_t at = static_cast<uint32_t>(offsetof(seccomp_data, args)) +
                          8 * condition.argument;  // little-endian
      Load(at);
      if (condition.mask != kAll) Add(BPF_ALU | BPF_AND | BPF_K, condition.mask, 0, 0);
      exits.push_back(code_.size());
      Add(BPF_JMP | BPF_JEQ | BPF_K, condition.value, 0, 0);
      if (!condition.whole) continue;
      Load(at + 4);
      exits.push_back(code_.size());
      Add(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 0);
    }
    Return(SECCOMP_RET_ALLOW);
    for (const size_t exit : exits) code_[exit].jf = static_cast<uint8_t>(code_.size() - exit - 1);
    Load(offsetof(seccomp_data, nr));
    // Another number: it is still in the accumulator.
    code_[begin].jf = static_cast<uint8_t>(code_.size() - begin - 1);
  }
  std::vector<sock_filter> Finish() && {
    Return(SECCOMP_RET_ERRNO | EPERM);
    return std::move(code_);
  }

 private:
  void Add(int operation, uint32_t k, uint8_t jt, uint8_t jf) {
    code_.push_back({static_cast<uint16_t>(operation), jt, jf, k});
  }
  void Load(size_t offset) { Add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset), 0, 0); }
  void Return(uint32_t answer) { Add(BPF_RET | BPF_K, answer, 0, 0); }

  std::vector<sock_filter> code_;
};

void AllowDescriptorCalls(Program* program) {
  for (const uint32_t command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL}) {
    program->AllowIf(SYS_fcntl, {{1, kAll, command}});
  }
  for (const uint32_t request : {TCGETS, TIOCGWINSZ, FIONREAD}) {
    program->AllowIf(SYS_ioctl, {{1, kAll, request}});
  }
  // To the connected peer, never to an address: that could begin a connection.
  program->AllowIf(SYS_sendto, {{4, kAll, 0, /*whole=*/true}});
  program->AllowIf(SYS_setsockopt, {{1, kAll, IPPROTO_TCP}, {2, kAll, TCP_NODELAY}});
  program->AllowIf(SYS_setsockopt, {{1, kAll, SOL_SOCKET}, {2, kAll, SO_RCVTIMEO}});
  program->AllowIf(SYS_setsockopt, {{1, kAll, SOL_SOCKET}, {2, kAll, SO_SNDTIMEO}});
}

void AllowProcessCalls(int pid, Program* program) {
  const uint32_t self = static_cast<uint32_t>(pid);
  program->AllowIf(SYS_kill, {{0, kAll, self}});
  program->AllowIf(SYS_tgkill, {{0, kAll, self}});
  program->AllowIf(SYS_prlimit64, {{0, kAll, 0}});
  program->AllowIf(SYS_prlimit64, {{0, kAll, self}});
  program->AllowIf(SYS_prctl, {{0, kAll, PR_SET_NAME}});
  program->AllowIf(SYS_prctl, {{0, kAll, PR_SET_VMA}});
  program->AllowIf(SYS_clone, {{0, CLONE_THREAD | kNamespaceFlags, CLONE_THREAD}});
  // Its flags are in memory, where a filter cannot read them; without it the C library uses clone.
  program->Answer(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
}

}  // namespace

std::vector<sock_filter> SeccompProgram(int pid, bool may_resolve) {
  Program program;
  for (const int number : kAlwaysAllowed) program.Allow(number);
  program.AllowIf(SYS_openat, {{2, kWritingFlags & ~O_DIRECTORY, O_RDONLY}});
  if (may_resolve) {
    program.Allow(SYS_openat2);
  } else {
    program.Answer(SYS_openat2, SECCOMP_RET_ERRNO | ENOSYS);
  }
  AllowDescriptorCalls(&program);
  AllowProcessCalls(pid, &program);
  return std::move(program).Finish();
}

absl::Status InstallSeccompFilter(bool may_resolve) {
  std::vector<sock_filter> code = SeccompProgram(getpid(), may_resolve);
  const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  // The process has no secrets to protect from itself: mitigations of speculation only cost time.
  constexpr unsigned kFlags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, kFlags, &program) == 0) return absl::OkStatus();
  if (errno == EINVAL && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                 unsigned{SECCOMP_FILTER_FLAG_TSYNC}, &program) == 0) {
    return absl::OkStatus();  // before Linux 4.17
  }
  return absl::ErrnoToStatus(errno, "seccomp");
}

}  // namespace hindsight
