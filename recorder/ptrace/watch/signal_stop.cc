#include "recorder/ptrace/watch/signal_stop.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "recorder/process/signal_sets.h"
#include "recorder/ptrace/attach.h"

namespace hindsight {

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

void MakeDisturbedCallAgain(pid_t process, pid_t thread, int signal) {
  user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0 ||
      static_cast<int64_t>(registers.orig_rax) < 0 ||
      static_cast<int64_t>(registers.rax) != -EINTR) {
    return;
  }
  const SignalSets sets = SignalSetsOf(process, thread);
  const bool stops =
      signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
  const bool handled = signal != 0 && (sets.caught >> (signal - 1) & 1) != 0;
  if (stops || handled || (signal == 0 && sets.about_to_be_handled() != 0)) return;
  registers = RegistersToResumeFrom(registers, /*call_may_fail=*/true);
  ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
}

}  // namespace hindsight
