#include "tracefmt/faults/stepped_process_fixture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/openat2.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace hindsight {
namespace {

constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;

[[noreturn]] void RunTraced(const std::function<void()>& run) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(2);
  raise(SIGSTOP);
  run();
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

// Whether `thread`, stopped at a system call, is about to make one; else it has made it.
bool IsEntry(pid_t thread, SystemCall* call) {
  __ptrace_syscall_info info = {};
  if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info) <= 0) return false;
  if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return false;
  call->number = info.entry.nr;
  std::copy(std::begin(info.entry.args), std::end(info.entry.args), std::begin(call->arguments));
  if (call->number != SYS_openat2) return true;
  // The first word of struct open_how.
  errno = 0;
  const long flags = ptrace(PTRACE_PEEKDATA, thread, call->arguments[2], nullptr);
  call->arguments[2] = errno == 0 ? static_cast<uint64_t>(flags) : 0;
  return true;
}

}  // namespace

bool ChangesNames(const SystemCall& call) {
  switch (call.number) {
    case SYS_renameat:
    case SYS_unlinkat:
    case SYS_mkdirat:
    case SYS_ftruncate:
      return true;
    case SYS_openat:
    case SYS_openat2:
      return (call.arguments[2] & O_CREAT) != 0;
    default:
      return false;
  }
}

bool OpensFile(const SystemCall& call) {
  return call.number == SYS_openat || call.number == SYS_openat2;
}

bool RunInSteps(const std::function<void()>& run,
                const std::function<bool(const SystemCall&)>& is_step,
                const std::function<void()>& at_step) {
  const pid_t child = fork();
  if (child == 0) RunTraced(run);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return false;
  if (ptrace(PTRACE_SETOPTIONS, child, nullptr, kOptions) != 0) return false;
  ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  while (true) {
    const pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0) return false;
    if (!WIFSTOPPED(status)) {
      if (thread == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
      continue;
    }
    const int stop = WSTOPSIG(status);
    SystemCall call;
    if (stop == (SIGTRAP | 0x80) && IsEntry(thread, &call) && is_step(call)) at_step();
    // New threads begin with a stop, and clone() with a trap: neither is for the process.
    const bool ours = stop == (SIGTRAP | 0x80) || stop == SIGTRAP || stop == SIGSTOP;
    ptrace(PTRACE_SYSCALL, thread, nullptr, static_cast<long>(ours ? 0 : stop));
  }
}

}  // namespace hindsight
