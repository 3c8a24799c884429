#include "recorder/ptrace/watch/signal_stop.h"

#include <sys/ptrace.h>
#include <sys/user.h>

#include <algorithm>
#include <iterator>

namespace hindsight {

siginfo_t InfoOf(pid_t thread) {
  siginfo_t info = {};
  ptrace(PTRACE_GETSIGINFO, thread, nullptr, &info);
  return info;
}

bool IsFault(const siginfo_t& info) {
  switch (info.si_signo) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
      return info.si_code > 0 && info.si_code < SI_KERNEL;
    default:
      return false;
  }
}

std::optional<uint64_t> PendingBreakpoint(pid_t thread) {
  siginfo_t infos[8];
  for (uint64_t offset = 0;; offset += std::size(infos)) {
    __ptrace_peeksiginfo_args which = {offset, 0, std::size(infos)};
    const long got = ptrace(PTRACE_PEEKSIGINFO, thread, &which, infos);
    if (got <= 0) return std::nullopt;
    const bool found = std::any_of(infos, infos + got, [](const siginfo_t& info) {
      return info.si_signo == SIGTRAP && info.si_code == SI_KERNEL;
    });
    if (!found) continue;
    user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return std::nullopt;
    return registers.rip - 1;
  }
}

}  // namespace hindsight
