#include "recorder/ptrace/tracee_signals.h"

#include <signal.h>
#include <sys/ptrace.h>

#include <iterator>
#include <utility>

#include "recorder/process/signal_sets.h"

namespace hindsight {
namespace {

constexpr uint64_t SignalBit(int signal) { return uint64_t{1} << (signal - 1); }

bool SetMask(pid_t thread, uint64_t mask) {
  return ptrace(PTRACE_SETSIGMASK, thread, TraceeSignals::kSetBytes, &mask) == 0;
}

}  // namespace

uint64_t TraceeSignals::mask() {
  if (!known_) known_ = ptrace(PTRACE_GETSIGMASK, thread_, kSetBytes, &mask_) == 0;
  return mask_;
}

bool TraceeSignals::BlockAll() { return SetMask(thread_, ~uint64_t{0}); }

bool TraceeSignals::PutBack() { return SetMask(thread_, mask_); }

bool TraceeSignals::HasDeliverable() {
  for (const uint32_t queue : {0u, static_cast<uint32_t>(PTRACE_PEEKSIGINFO_SHARED)}) {
    siginfo_t infos[16];
    for (uint64_t offset = 0;; offset += std::size(infos)) {
      __ptrace_peeksiginfo_args args = {offset, queue, std::size(infos)};
      const long got = ptrace(PTRACE_PEEKSIGINFO, thread_, &args, infos);
      if (got < 0) return true;  // vanished: resuming it reports that
      for (long i = 0; i < got; ++i) {
        if ((mask() & SignalBit(infos[i].si_signo)) == 0) return true;
      }
      if (got < static_cast<long>(std::size(infos))) break;
    }
  }
  return false;
}

bool TraceeSignals::OnlyIgnoredCome(bool or_none) const {
  const SignalSets sets = SignalSetsOf(process_, thread_);
  return sets.known && (sets.coming() != 0 || or_none) && sets.only_ignored_come();
}

bool TraceeSignals::Catches(int signal) const {
  return (SignalSetsOf(process_, thread_).caught & SignalBit(signal)) != 0;
}

// With a signal to deliver the mask is left alone, since it is saved in the frame: entering the
// handler raises no SIGTRAP.
void TraceeSignals::BeforeStep(int signal) {
  if ((mask() & SignalBit(SIGTRAP)) == 0) return;
  stepping_ = true;
  if (signal == 0) SetMask(thread_, mask_ & ~SignalBit(SIGTRAP));
}

void TraceeSignals::AfterStop(bool handler_entry) {
  if (std::exchange(stepping_, false) && !handler_entry) PutBack();
}

}  // namespace hindsight
