#include "emulator/assist/stub_faults.h"

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <iterator>
#include <mutex>

namespace hindsight {
namespace {

constexpr int kSignals[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS};

struct StubRange {
  uint64_t begin = 0, end = 0, bail = 0;
};

// The kernel's handler gets no context of ours: these cannot be members.
thread_local StubRange current;
struct sigaction previous_actions[std::size(kSignals)];

struct sigaction& Previous(int signal) {
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] == signal) return previous_actions[i];
  }
  return previous_actions[0];
}

void OnSignal(int signal, siginfo_t* info, void* context) {
  greg_t& rip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  const auto at = static_cast<uint64_t>(rip);
  if (at >= current.begin && at < current.end) {
    rip = static_cast<greg_t>(current.bail);
    return;
  }
  const struct sigaction& previous = Previous(signal);
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // Returning repeats the instruction, now with the default action.
    sigaction(signal, &previous, nullptr);
  }
}

}  // namespace

void StubFaultScope::Install() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = OnSignal;
    // NODEFER: as for the handler of faults in generated code, which this one calls.
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      sigaction(kSignals[i], &action, &previous_actions[i]);
    }
  });
}

StubFaultScope::StubFaultScope(uint64_t begin, uint64_t end, uint64_t bail) {
  current = {begin, end, bail};
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

StubFaultScope::~StubFaultScope() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  current.end = 0;
}

}  // namespace hindsight
