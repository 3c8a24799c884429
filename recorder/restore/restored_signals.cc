#include "recorder/restore/restored_signals.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr int kSignals = 64;
constexpr uint64_t kSetBytes = 8;

// rt_sigaction's, which is not libc's struct.
struct KernelAction {
  uint64_t handler, flags, restorer, mask;
};

absl::Status RestoreActions(const std::vector<SignalHandling>& actions, Remote* remote) {
  for (size_t i = 0; i < actions.size() && i < kSignals; ++i) {
    const int signal = static_cast<int>(i) + 1;
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    const KernelAction action = {actions[i].handler, actions[i].flags, actions[i].restorer,
                                 actions[i].mask};
    ASSIGN_OR_RETURN(const uint64_t at, remote->PutValue(0, action));
    RETURN_IF_ERROR(remote
                        ->Call("rt_sigaction", SYS_rt_sigaction,
                               {static_cast<uint64_t>(signal), at, 0, kSetBytes})
                        .status());
  }
  return absl::OkStatus();
}

siginfo_t ToInfo(const std::string& bytes) {
  siginfo_t info = {};
  std::memcpy(&info, bytes.data(), std::min(bytes.size(), sizeof(info)));
  return info;
}

// The infos of the signals in `pending`; of one whose info is not known a plain one.
std::vector<siginfo_t> Infos(uint64_t pending, const std::vector<std::string>& known) {
  std::vector<siginfo_t> infos;
  for (const std::string& bytes : known) {
    const siginfo_t info = ToInfo(bytes);
    if (info.si_signo <= 0 || info.si_signo > kSignals) continue;
    pending &= ~(uint64_t{1} << (info.si_signo - 1));
    infos.push_back(info);
  }
  for (int signal = 1; signal <= kSignals; ++signal) {
    if ((pending >> (signal - 1) & 1) == 0) continue;
    siginfo_t info = {};
    info.si_signo = signal;
    info.si_code = SI_USER;
    infos.push_back(info);
  }
  return infos;
}

// The process, or the thread, sends them to itself: only that may have any si_code. `thread` 0: to
// the process.
absl::Status Send(const std::vector<siginfo_t>& infos, pid_t thread, Remote* remote) {
  const auto process = static_cast<uint64_t>(remote->process());
  for (const siginfo_t& info : infos) {
    ASSIGN_OR_RETURN(const uint64_t at, remote->PutValue(0, info));
    const auto signal = static_cast<uint64_t>(info.si_signo);
    const absl::Status sent =
        thread == 0
            ? remote->Call("rt_sigqueueinfo", SYS_rt_sigqueueinfo, {process, signal, at}).status()
            : remote
                  ->Call("rt_tgsigqueueinfo", thread, SYS_rt_tgsigqueueinfo,
                         {process, static_cast<uint64_t>(thread), signal, at})
                  .status();
    RETURN_IF_ERROR(sent);
  }
  return absl::OkStatus();
}

timeval ToTimeval(uint64_t ns) {
  // A timer that is about to run out still does.
  const uint64_t us = (ns + 999) / 1000;
  return {static_cast<time_t>(us / 1000000), static_cast<suseconds_t>(us % 1000000)};
}

absl::Status RestoreTimers(const KernelState& kernel, Remote* remote, RestoreNotes* notes) {
  for (const IntervalTimer& timer : kernel.interval_timers) {
    if (timer.left_ns == 0) continue;
    const itimerval value = {ToTimeval(timer.interval_ns), ToTimeval(timer.left_ns)};
    ASSIGN_OR_RETURN(const uint64_t at, remote->PutValue(0, value));
    RETURN_IF_ERROR(
        remote->Call("setitimer", SYS_setitimer, {static_cast<uint64_t>(timer.which), at, 0})
            .status());
  }
  for (const PosixTimer& timer : kernel.posix_timers) {
    notes->lost.push_back(
        absl::StrCat("timer ", timer.id, " (timer_create): when it runs out is not known"));
  }
  return absl::OkStatus();
}

}  // namespace

void FindSignal(const TraceReader& trace, uint64_t snapshot, const KernelState& kernel,
                std::vector<RestoredThread>* threads) {
  for (const ProcessEvent& event : trace.events()) {
    if (event.kind != EventKind::kSignal || event.count != snapshot) continue;
    const siginfo_t info = ToInfo(event.text);
    if (info.si_signo <= 0 || info.si_signo > kSignals) continue;
    const auto index = static_cast<size_t>(info.si_signo - 1);
    for (RestoredThread& thread : *threads) {
      if (thread.state.thread != event.thread) continue;
      thread.signal = info;
      // Neither SIG_DFL nor SIG_IGN.
      thread.signal_is_handled = index < kernel.signals.size() && kernel.signals[index].handler > 1;
    }
  }
}

absl::Status RestoreSignals(const KernelState& kernel, const std::vector<RestoredThread>& threads,
                            Remote* remote, RestoreNotes* notes) {
  RETURN_IF_ERROR(RestoreActions(kernel.signals, remote));
  // Of several with the same number it is the first.
  for (const RestoredThread& thread : threads) {
    if (thread.signal.has_value()) RETURN_IF_ERROR(Send({*thread.signal}, thread.thread, remote));
  }
  RETURN_IF_ERROR(Send(Infos(kernel.pending, kernel.siginfos), 0, remote));
  for (const RestoredThread& thread : threads) {
    RETURN_IF_ERROR(
        Send(Infos(thread.kernel.pending, thread.kernel.siginfos), thread.thread, remote));
  }
  return RestoreTimers(kernel, remote, notes);
}

}  // namespace hindsight
