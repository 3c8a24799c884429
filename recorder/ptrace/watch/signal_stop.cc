#include "recorder/ptrace/watch/signal_stop.h"

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

}  // namespace hindsight
