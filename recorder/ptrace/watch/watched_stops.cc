// WatchedProcess: what happens to its threads.

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "recorder/process/process_facts.h"
#include "recorder/process/scheduling.h"
#include "recorder/ptrace/watch/signal_stop.h"
#include "recorder/ptrace/watch/watched_process.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kChildStopTimeout(1000);
constexpr useconds_t kPauseUs = 100;

// Threads that stop all the time must not keep the caller from all else.
constexpr int kMostRounds = 16;

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

void WatchedProcess::Collect() {
  more_ = true;
  for (int rounds = 0; more_ && rounds < kMostRounds; ++rounds) more_ = CollectAll();
}

// Whether anything has happened; if so, more may have.
bool WatchedProcess::CollectAll() {
  std::vector<pid_t> running;
  for (const auto& [thread, state] : threads_) {
    if (state.state == Thread::State::kRuns) running.push_back(thread);
  }
  bool some = false;
  for (const pid_t thread : running) {
    if (ended_) return false;
    if (threads_.count(thread) != 0) some = CollectOne(thread) || some;
  }
  return some && !ended_;
}

bool WatchedProcess::CollectOne(pid_t thread) {
  siginfo_t info = {};
  constexpr int kPeek = WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL;
  if (waitid(P_PID, static_cast<id_t>(thread), &info, kPeek) != 0) {
    if (errno == ECHILD) OnEnd(thread, WaitStatus());
    return false;
  }
  if (info.si_pid != thread) return false;
  const bool stopped = info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED;
  // Our child's own end is for whoever waits for it.
  if (!stopped && thread == process_ && StatusNumber(thread, "PPid:") == getpid()) {
    ended_ = true;
    return true;
  }
  int status = 0;
  if (waitpid(thread, &status, __WALL | WNOHANG) == thread) {
    OnStatus(thread, WaitStatus::Decode(status));
  }
  return true;
}

void WatchedProcess::OnEnd(pid_t thread, const WaitStatus&) {
  threads_.erase(thread);
  events_.erase(std::remove_if(events_.begin(), events_.end(),
                               [&](const WatchEvent& event) { return event.thread == thread; }),
                events_.end());
  ended_ = ended_ || thread == process_;
}

void WatchedProcess::OnStatus(pid_t thread, const WaitStatus& status) {
  if (!status.stopped()) return OnEnd(thread, status);
  Thread& state = threads_[thread];
  state.stopped_ns = NowNs();
  if (status.kind == WaitStatus::Kind::kSignal) return OnSignal(thread, status.signal);
  if (status.is_event_stop()) {
    if (code_.Knows(PendingBreakpoint(thread).value_or(0))) {
      ptrace(PTRACE_CONT, thread, nullptr, nullptr);  // to its SIGTRAP, which makes it arrive
      return;
    }
    state.group_stop = status.group_stop();
    state.state = Thread::State::kStopped;
    if (GoesOn(state)) Go(thread);
    return;
  }
  if (status.is_exec()) return OnExec(thread);
  if (status.event == PTRACE_EVENT_CLONE || status.event == PTRACE_EVENT_FORK ||
      status.event == PTRACE_EVENT_VFORK) {
    OnNewTask(thread);
  }
  // In the middle of a call: a stop that is wanted comes after it.
  if (GoesOn(threads_[thread])) {
    ptrace(PTRACE_CONT, thread, nullptr, nullptr);
  } else {
    ContinueToStop(thread, 0);
  }
}

// Whether this is the signal that the thread was kept from; `info` becomes what that came with.
bool WatchedProcess::ComesAgain(pid_t thread, Thread* state, siginfo_t* info) {
  if (!state->again.has_value() || state->again->si_signo != info->si_signo) return false;
  const bool by_itself = IsFault(*state->again) && state->again->si_addr == info->si_addr;
  const bool sent = info->si_code == SI_TKILL && !IsFault(*state->again);
  if (!by_itself && !sent) return false;
  *info = *std::exchange(state->again, std::nullopt);
  if (sent) ptrace(PTRACE_SETSIGINFO, thread, nullptr, info);
  return true;
}

void WatchedProcess::OnSignal(pid_t thread, int signal) {
  Thread& state = threads_[thread];
  state.info = InfoOf(thread);
  if (signal == SIGTRAP && state.info.si_code == SI_KERNEL) {
    user_regs_struct registers = {};
    ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
    if (code_.Knows(registers.rip - 1)) {
      registers.rip -= 1;
      ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
      return OnArrival(thread, registers.rip);
    }
  }
  const bool comes_again = ComesAgain(thread, &state, &state.info);
  state.state = Thread::State::kSignal;
  if (!comes_again && !state.guest && wishes_.signals.count(signal) != 0) {
    state.held = true;
    events_.push_back({.thread = thread,
                       .signal = signal,
                       .signal_info = std::string(reinterpret_cast<const char*>(&state.info),
                                                  sizeof(state.info))});
    return;
  }
  if (GoesOn(state)) Go(thread);
}

void WatchedProcess::OnArrival(pid_t thread, uint64_t address) {
  // Should this process die, the SIGTRAP would be delivered.
  const std::optional<int> other = LeaveStepTrap(thread);
  Thread& state = threads_[thread];
  state.at = address;
  state.state = Thread::State::kStopped;
  if (other.has_value()) {
    const WaitStatus status = WaitStatus::Decode(*other);
    if (!status.is_event_stop()) return OnStatus(thread, status);
    state.group_stop = status.group_stop();
  }
  if (places_.hooks.count(address) != 0 && !state.guest) FindPlaces();
  if (places_.stops.count(address) != 0 && use_stops_ && !state.guest) {
    state.held = true;
    events_.push_back({.thread = thread, .address = address});
  } else if (GoesOn(state)) {
    Go(thread);
  }
}

void WatchedProcess::OnNewTask(pid_t thread) {
  const pid_t child = TaskOfEvent(thread);
  if (StatusNumber(child, "Tgid:") == process_) {
    threads_.try_emplace(child);
  } else if (!code_.empty() && SharesMemory(thread, child, /*otherwise=*/false)) {
    threads_[child].guest = true;
  } else {
    WaitForSeizedStop(child, kChildStopTimeout);
    code_.Clean(child);
    Detach(child);
  }
}

// In a guest it has memory of its own now. In the process the other threads are gone.
void WatchedProcess::OnExec(pid_t thread) {
  if (threads_[thread].guest) {
    threads_.erase(thread);
    Detach(thread);
    return;
  }
  LeaveGuests();
  threads_.clear();
  events_.clear();
  threads_[process_] = {};
  code_.Forget();
  places_ = {};
  FindPlaces();
  if (stopping_) {
    ContinueToStop(process_, 0);
  } else {
    ptrace(PTRACE_CONT, process_, nullptr, nullptr);
  }
}

// They have the memory that was the process's before an exec, with its breakpoints.
void WatchedProcess::LeaveGuests() {
  std::vector<pid_t> guests;
  for (const auto& [thread, state] : threads_) {
    if (!state.guest) continue;
    guests.push_back(thread);
    if (state.state == Thread::State::kRuns) ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  }
  leaving_ = true;
  for (const pid_t guest : guests) {
    const auto deadline =
        NowNs() + static_cast<uint64_t>(std::chrono::nanoseconds(kChildStopTimeout).count());
    const auto runs = [&] {
      const auto found = threads_.find(guest);
      return found != threads_.end() && found->second.state == Thread::State::kRuns;
    };
    while (runs() && NowNs() < deadline) {
      if (!CollectOne(guest)) usleep(kPauseUs);
    }
    code_.Clean(guest);
    if (const auto found = threads_.find(guest); found != threads_.end()) {
      LetGo(guest, found->second);
      threads_.erase(found);
    }
  }
  leaving_ = false;
}

}  // namespace hindsight
