#include "confine/seccomp_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

namespace hindsight {
namespace {

constexpr int kPid = 4711;
constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

// The program's result, as the kernel's interpreter computes it; only the instructions in use.
uint32_t Interpret(const std::vector<sock_filter>& program, const seccomp_data& data) {
  uint32_t accumulator = 0;
  for (size_t at = 0; at < program.size(); ++at) {
    const sock_filter& code = program[at];
    switch (code.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&accumulator, reinterpret_cast<const char*>(&data) + code.k, 4);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        accumulator &= code.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += accumulator == code.k ? code.jt : code.jf;
        break;
      case BPF_RET | BPF_K:
        return code.k;
      default:
        ADD_FAILURE() << "instruction " << code.code;
        return 0;
    }
  }
  ADD_FAILURE() << "ran out of the program";
  return 0;
}

uint32_t Answer(int number, std::vector<uint64_t> arguments = {}, bool may_resolve = true) {
  seccomp_data data = {};
  data.nr = number;
  data.arch = AUDIT_ARCH_X86_64;
  std::copy(arguments.begin(), arguments.end(), data.args);
  return Interpret(SeccompProgram(kPid, may_resolve), data);
}

TEST(SeccompFilterTest, WhatReplayNeedsIsAllowed) {
  for (const int number : {SYS_read, SYS_write, SYS_mmap, SYS_mprotect, SYS_futex, SYS_accept4,
                           SYS_rt_sigreturn, SYS_getrandom, SYS_exit_group}) {
    EXPECT_EQ(Answer(number), kAllow) << number;
  }
}

TEST(SeccompFilterTest, WhatReachesOutIsRefused) {
  for (const int number : {SYS_execve,
                           SYS_execveat,
                           SYS_fork,
                           SYS_vfork,
                           SYS_socket,
                           SYS_connect,
                           SYS_bind,
                           SYS_listen,
                           SYS_sendmsg,
                           SYS_sendmmsg,
                           SYS_open,
                           SYS_creat,
                           SYS_unlink,
                           SYS_unlinkat,
                           SYS_rename,
                           SYS_renameat2,
                           SYS_mkdir,
                           SYS_link,
                           SYS_symlink,
                           SYS_chmod,
                           SYS_fchmod,
                           SYS_truncate,
                           SYS_ftruncate,
                           SYS_ptrace,
                           SYS_process_vm_readv,
                           SYS_process_vm_writev,
                           SYS_pidfd_open,
                           SYS_pidfd_getfd,
                           SYS_bpf,
                           SYS_io_uring_setup,
                           SYS_userfaultfd,
                           SYS_perf_event_open,
                           SYS_mount,
                           SYS_unshare,
                           SYS_setns,
                           SYS_chroot,
                           SYS_setuid,
                           SYS_keyctl,
                           SYS_memfd_create,
                           SYS_tkill,
                           SYS_rt_sigqueueinfo,
                           SYS_readlink,
                           SYS_access}) {
    EXPECT_EQ(Answer(number), kRefuse) << number;
  }
}

TEST(SeccompFilterTest, FilesAreOpenedForReadingOnly) {
  EXPECT_EQ(Answer(SYS_openat, {3, 0, O_RDONLY | O_CLOEXEC | O_NONBLOCK}), kAllow);
  EXPECT_EQ(Answer(SYS_openat, {3, 0, O_RDONLY | O_DIRECTORY}), kAllow);
  for (const uint64_t flags : {O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE | O_RDWR, 3}) {
    EXPECT_EQ(Answer(SYS_openat, {3, 0, flags}), kRefuse) << flags;
  }
  EXPECT_EQ(Answer(SYS_openat2, {}, /*may_resolve=*/true), kAllow);
  EXPECT_EQ(Answer(SYS_openat2, {}, /*may_resolve=*/false), kUnknown);
}

TEST(SeccompFilterTest, ThreadsMayBeMadeButNoProcesses) {
  const uint64_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                          CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID;
  EXPECT_EQ(Answer(SYS_clone, {thread}), kAllow);
  EXPECT_EQ(Answer(SYS_clone, {thread & ~uint64_t{CLONE_THREAD}}), kRefuse);
  EXPECT_EQ(Answer(SYS_clone, {thread | CLONE_NEWUSER}), kRefuse);
  EXPECT_EQ(Answer(SYS_clone, {17}), kRefuse);  // fork
  EXPECT_EQ(Answer(SYS_clone3), kUnknown);
}

TEST(SeccompFilterTest, SignalsGoToThisProcessOnly) {
  for (const int number : {SYS_kill, SYS_tgkill}) {
    EXPECT_EQ(Answer(number, {kPid, kPid}), kAllow);
    EXPECT_EQ(Answer(number, {1, 1}), kRefuse);
    EXPECT_EQ(Answer(number, {0xffffffffffffffff}), kRefuse);
    EXPECT_EQ(Answer(number, {0}), kRefuse);
  }
}

TEST(SeccompFilterTest, SomeCallsAreForSomeArguments) {
  EXPECT_EQ(Answer(SYS_sendto, {3, 0, 1, 0, 0}), kAllow);
  EXPECT_EQ(Answer(SYS_sendto, {3, 0, 1, 0, 0x1000}), kRefuse);
  EXPECT_EQ(Answer(SYS_sendto, {3, 0, 1, 0, 0x700000000000}), kRefuse);
  EXPECT_EQ(Answer(SYS_ioctl, {0, TIOCGWINSZ}), kAllow);
  EXPECT_EQ(Answer(SYS_ioctl, {0, TIOCSTI}), kRefuse);
  EXPECT_EQ(Answer(SYS_fcntl, {0, F_GETFL}), kAllow);
  EXPECT_EQ(Answer(SYS_fcntl, {0, F_SETOWN}), kRefuse);
  EXPECT_EQ(Answer(SYS_prctl, {PR_SET_NAME}), kAllow);
  EXPECT_EQ(Answer(SYS_prctl, {PR_SET_MM}), kRefuse);
  EXPECT_EQ(Answer(SYS_prlimit64, {0}), kAllow);
  EXPECT_EQ(Answer(SYS_prlimit64, {1}), kRefuse);
}

TEST(SeccompFilterTest, OtherInstructionSetsEndTheProcess) {
  seccomp_data data = {};
  data.nr = SYS_read;
  data.arch = AUDIT_ARCH_I386;
  EXPECT_EQ(Interpret(SeccompProgram(kPid, true), data), uint32_t{SECCOMP_RET_KILL_PROCESS});
  EXPECT_EQ(Answer(0x40000000 | SYS_write), kRefuse);  // x32
}

}  // namespace
}  // namespace hindsight
