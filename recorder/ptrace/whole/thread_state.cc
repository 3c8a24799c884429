#include "recorder/ptrace/whole/thread_state.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/types/span.h"
#include "recorder/process/process_memory.h"
#include "recorder/process/signal_sets.h"
#include "recorder/ptrace/thread_facts.h"
#include "recorder/ptrace/whole/injected_call.h"
#include "recorder/ptrace/whole/scratch_page.h"

namespace hindsight {
namespace {

std::vector<std::string> Siginfos(pid_t thread, uint32_t flags) {
  std::vector<std::string> all;
  while (true) {
    siginfo_t infos[8];
    __ptrace_peeksiginfo_args which = {all.size(), flags, 8};
    const long got = ptrace(PTRACE_PEEKSIGINFO, thread, &which, infos);
    for (long i = 0; i < got; ++i) {
      all.emplace_back(reinterpret_cast<const char*>(&infos[i]), sizeof(siginfo_t));
    }
    if (got < 8) return all;
  }
}

void ReadScheduling(pid_t thread, ThreadKernelState* state) {
  sched_param parameters = {};
  state->policy = sched_getscheduler(thread);
  sched_getparam(thread, &parameters);
  state->priority = parameters.sched_priority;
  state->nice = getpriority(PRIO_PROCESS, static_cast<id_t>(thread));
  uint64_t words[128];
  const long bytes = syscall(SYS_sched_getaffinity, thread, sizeof(words), words);
  if (bytes > 0) state->processors.assign(words, words + bytes / sizeof(uint64_t));
}

// Where the GNU C library has the thread's id, which it has the kernel clear; 0: it is not there.
uint64_t KnownClearTid(const ThreadKernelState& state) {
  constexpr uint64_t kBeforeRobustList = 16;
  int32_t id = 0;
  const uint64_t address = state.robust_list - kBeforeRobustList;
  const absl::Span<uint8_t> bytes(reinterpret_cast<uint8_t*>(&id), sizeof(id));
  const bool found = state.robust_list > kBeforeRobustList &&
                     ProcessVmMemory(state.thread).Read(address, bytes) && id == state.thread;
  return found ? address : 0;
}

void AskForSignalStack(const ScratchPage& page, const CallSite& site, ThreadKernelState* state) {
  const CallToInject calls[] = {{SYS_sigaltstack, {0, page.address()}}};
  const auto values = InjectCalls(state->thread, site, calls);
  stack_t stack;
  if (!values.ok() || (*values)[0] != 0 || !page.Read(0, &stack)) return;
  state->has_signal_stack = true;
  state->signal_stack_base = reinterpret_cast<uint64_t>(stack.ss_sp);
  state->signal_stack_bytes = stack.ss_size;
  state->signal_stack_flags = stack.ss_flags;
}

void AskForClearTid(const ScratchPage& page, const CallSite& site, ThreadKernelState* state) {
  const CallToInject calls[] = {{SYS_prctl, {PR_GET_TID_ADDRESS, page.address()}}};
  const auto values = InjectCalls(state->thread, site, calls);
  uint64_t clear_tid;
  if (!values.ok() || (*values)[0] != 0 || !page.Read(0, &clear_tid)) return;
  state->clear_tid = clear_tid;
}

// Each call takes some 0.1 ms: none is made that is not needed.
void AskThread(const ScratchPage& page, const CallSite& site, bool handles_signals,
               ThreadKernelState* state) {
  if (const uint64_t address = KnownClearTid(*state)) state->clear_tid = address;
  if (!CanMakeCalls(state->thread)) return;
  if (handles_signals) AskForSignalStack(page, site, state);
  if (!state->clear_tid.has_value()) AskForClearTid(page, site, state);
}

// Those of the C library itself: for cancellation and set*id.
constexpr uint64_t kLibrarySignals = uint64_t{3} << 31;

uint64_t Nanoseconds(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(time.tv_usec) * 1000;
}

void AskForTimers(pid_t thread, const ScratchPage& page, const CallSite& site, KernelState* state) {
  constexpr int32_t kTimers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
  std::vector<CallToInject> calls;
  for (const int32_t which : kTimers) {
    const auto index = static_cast<uint64_t>(which);
    calls.push_back({SYS_getitimer, {index, page.address() + index * sizeof(itimerval)}});
  }
  const auto values = InjectCalls(thread, site, calls);
  if (!values.ok()) return;
  for (const int32_t which : kTimers) {
    itimerval timer;
    if ((*values)[static_cast<size_t>(which)] != 0 ||
        !page.Read(static_cast<uint64_t>(which) * sizeof(timer), &timer)) {
      continue;
    }
    state->interval_timers.push_back(
        {which, Nanoseconds(timer.it_value), Nanoseconds(timer.it_interval)});
  }
}

}  // namespace

ThreadKernelState ReadThreadState(pid_t thread) {
  ThreadKernelState state;
  state.thread = thread;
  // As it will be when the call that the thread is in returns: some put another in place.
  ptrace(PTRACE_GETSIGMASK, thread, sizeof(state.blocked), &state.blocked);
  state.siginfos = Siginfos(thread, 0);
  state.pending = SignalsOf(state.siginfos);
  syscall(SYS_get_robust_list, thread, &state.robust_list, &state.robust_list_bytes);
  const RseqRegistration rseq = RseqRegistrationOf(thread);
  state.rseq = rseq.address;
  state.rseq_bytes = rseq.bytes;
  state.rseq_signature = rseq.signature;
  state.rseq_flags = rseq.flags;
  ReadScheduling(thread, &state);
  return state;
}

bool CanMakeCalls(pid_t thread) {
  // A signal that is about to be delivered would have to be sent again.
  siginfo_t stopped = {};
  ptrace(PTRACE_GETSIGINFO, thread, nullptr, &stopped);
  if (stopped.si_code >> 8 != PTRACE_EVENT_STOP) return false;
  constexpr uint64_t kRseqCs = 8;  // offsetof(struct rseq, rseq_cs)
  uint64_t sequence = 0;
  const uint64_t rseq = RseqOf(thread);
  if (rseq == 0) return true;
  const absl::Span<uint8_t> bytes(reinterpret_cast<uint8_t*>(&sequence), sizeof(sequence));
  return ProcessVmMemory(thread).Read(rseq + kRseqCs, bytes) && sequence == 0;
}

std::vector<std::string> ProcessSiginfos(pid_t thread) {
  return Siginfos(thread, PTRACE_PEEKSIGINFO_SHARED);
}

uint64_t SignalsOf(const std::vector<std::string>& siginfos) {
  uint64_t signals = 0;
  for (const std::string& bytes : siginfos) {
    int number = 0;
    std::memcpy(&number, bytes.data(), sizeof(number));
    if (number >= 1 && number <= 64) signals |= uint64_t{1} << (number - 1);
  }
  return signals;
}

void AskThreads(const ProcessStop& stop, KernelState* state) {
  if (stop.threads().empty()) return;
  const auto fit =
      std::find_if(stop.threads().begin(), stop.threads().end(),
                   [](const StoppedThread& stopped) { return CanMakeCalls(stopped.thread); });
  if (fit == stop.threads().end()) return;
  const pid_t first = fit->thread;
  const CallSite& site = stop.call_site();
  if (site.instruction == 0) return;
  const bool handles_signals = (SignalSetsOf(stop.process(), first).caught & ~kLibrarySignals) != 0;
  constexpr uintptr_t kOptions = PTRACE_O_TRACESYSGOOD;
  for (const StoppedThread& thread : stop.threads()) {
    ptrace(PTRACE_SETOPTIONS, thread.thread, nullptr, kOptions);
  }
  if (const ScratchPage page(first, site); page.address() != 0) {
    for (ThreadKernelState& thread : state->threads) {
      AskThread(page, site, handles_signals, &thread);
    }
    AskForTimers(first, page, site, state);
  }
  for (const StoppedThread& thread : stop.threads()) {
    ptrace(PTRACE_SETOPTIONS, thread.thread, nullptr, stop.options());
  }
}

}  // namespace hindsight
