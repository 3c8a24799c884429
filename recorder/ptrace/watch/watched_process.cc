#include "recorder/ptrace/watch/watched_process.h"

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/scheduling.h"
#include "recorder/process/signal_sets.h"
#include "recorder/ptrace/attach_errors.h"
#include "recorder/ptrace/watch/signal_stop.h"
#include "recorder/ptrace/whole/precedence.h"

namespace hindsight {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kFirstStopTimeout(1000);
// Of a thread that runs, before it is let go of: it may be on its way from a breakpoint.
constexpr std::chrono::milliseconds kLeaveTimeout(60'000);
// Of one that waits: it would have stopped.
constexpr std::chrono::milliseconds kWaitingTimeout(100);
constexpr long kFirstPauseNs = 20'000, kLongestPauseNs = 1'000'000;

uint64_t NowNs() { return static_cast<uint64_t>(Clock::now().time_since_epoch().count()); }

}  // namespace

WatchedProcess::WatchedProcess(pid_t process, Wishes wishes)
    : process_(process), wishes_(std::move(wishes)) {}

uintptr_t WatchedProcess::Options() const {
  constexpr uintptr_t kPlaceOptions = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
  return PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
         (wishes_.find_places != nullptr ? kPlaceOptions : 0);
}

absl::StatusOr<std::unique_ptr<WatchedProcess>> WatchedProcess::Seize(pid_t process,
                                                                      Wishes wishes) {
  if (!wishes.stopped) RETURN_IF_ERROR(CheckAttachable(process));
  auto watched = std::unique_ptr<WatchedProcess>(new WatchedProcess(process, std::move(wishes)));
  RETURN_IF_ERROR(watched->SeizeAll());
  if (!watched->wishes_.before_exec) watched->FindPlaces();
  if (watched->wishes_.stopped) watched->LetStoppedGo();
  return watched;
}

// New threads of those that are seized are traced from their beginning.
absl::Status WatchedProcess::SeizeAll() {
  for (bool found = true; found;) {
    found = false;
    for (const pid_t thread : ThreadsOf(process_)) {
      if (threads_.count(thread) != 0) continue;
      const bool seized = ptrace(PTRACE_SEIZE, thread, nullptr, Options()) == 0;
      const int error = errno;
      found = found || seized;
      // Or it was made meanwhile by one that is seized.
      if (seized || StatusNumber(thread, "TracerPid:") == getpid()) {
        threads_[thread] = {};
      } else if (error != ESRCH && !HasEnded(process_, thread)) {
        return WhyNotSeized(process_, thread, error);
      }
    }
  }
  if (threads_.empty()) return NoSuchProcess(process_);
  return absl::OkStatus();
}

void WatchedProcess::LetStoppedGo() {
  for (auto& [thread, state] : threads_) {
    ptrace(PTRACE_SETOPTIONS, thread, nullptr, Options());
    state.info = InfoOf(thread);
    if (state.info.si_code >> 8 != PTRACE_EVENT_STOP) {
      state.state = Thread::State::kSignal;
      continue;
    }
    user_regs_struct registers = {};
    ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
    state.state = Thread::State::kStopped;
    if (places_.stops.count(registers.rip) != 0) state.at = registers.rip;
  }
  stopping_ = true;
  Resume();
}

WatchedProcess::~WatchedProcess() {
  Collect();
  if (!ended_) StopToLeave();
  if (ended_) return;
  code_.TakeOut(LiveThread());
  for (const auto& [thread, state] : threads_) LetGo(thread, state);
}

// Stops guests as well: a SIGTRAP of ours that has not been reported would kill its thread.
void WatchedProcess::StopToLeave() {
  const Precedence precedence(0);
  stopping_ = leaving_ = true;
  for (const auto& [thread, state] : threads_) {
    if (state.state == Thread::State::kRuns) ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  }
  const uint64_t begin_ns = NowNs();
  const auto is_over = [&](std::chrono::nanoseconds time) {
    return NowNs() - begin_ns > static_cast<uint64_t>(time.count());
  };
  for (long pause_ns = kFirstPauseNs;; pause_ns = std::min(2 * pause_ns, kLongestPauseNs)) {
    Collect();
    if (ended_ || is_over(kLeaveTimeout)) return;
    const bool only_stopping = is_over(kWaitingTimeout);
    const bool awaits = std::any_of(threads_.begin(), threads_.end(), [&](const auto& thread) {
      return thread.second.state == Thread::State::kRuns && !HasEnded(process_, thread.first) &&
             (!only_stopping || IsStopping(thread.first, thread.second));
    });
    if (!awaits) return;
    const timespec pause = {0, pause_ns};
    nanosleep(&pause, nullptr);
  }
}

// Whether a thread that was asked to stop will do so by itself; else it waits in a system call, for
// its child as after vfork, or for a device, and is at no breakpoint.
bool WatchedProcess::IsStopping(pid_t thread, const Thread& state) const {
  const pid_t process = state.guest ? thread : process_;
  const auto note = ThreadScheduling(process, thread).Read();
  if (!note.has_value()) return false;
  constexpr uint64_t kTrap = uint64_t{1} << (SIGTRAP - 1);
  return note->state != 'D' || (SignalSetsOf(process, thread).pending & kTrap) != 0;
}

// Requires: no breakpoint is in memory.
void WatchedProcess::LetGo(pid_t thread, const Thread& state) {
  if (state.state == Thread::State::kRuns) {
    const bool ended = HasEnded(state.guest ? thread : process_, thread);
    if (!ended && wishes_.stragglers != nullptr) wishes_.stragglers->Add(thread);
    return;
  }
  const bool has_signal = state.state == Thread::State::kSignal;
  if (!has_signal && !state.guest) {
    wishes_.calls->MakeAgain(process_, thread, 0, state.stopped_ns);
  }
  if (!has_signal && state.again.has_value() && !IsFault(*state.again)) {
    syscall(SYS_tgkill, process_, thread, state.again->si_signo);
  }
  Detach(thread, has_signal ? state.info.si_signo : 0);
}

// A thread by whose name the memory is found: once the first one has ended, not the process's own.
pid_t WatchedProcess::LiveThread() const {
  for (const auto& [thread, state] : threads_) {
    if (!state.guest && !HasEnded(process_, thread)) return thread;
  }
  return process_;
}

void WatchedProcess::FindPlaces() {
  if (wishes_.find_places == nullptr) return;
  places_ = wishes_.find_places();
  std::set<uint64_t> all = places_.hooks;
  if (use_stops_) all.insert(places_.stops.begin(), places_.stops.end());
  code_.Set(LiveThread(), all);
  scratch_ = ScratchPlaces(LiveThread());
}

void WatchedProcess::UseStops(bool stops) {
  if (wishes_.find_places == nullptr || stops == use_stops_) return;
  use_stops_ = stops;
  std::set<uint64_t> all = places_.hooks;
  if (use_stops_) all.insert(places_.stops.begin(), places_.stops.end());
  if (!ended_) code_.Set(LiveThread(), all);
}

std::optional<WatchEvent> WatchedProcess::Next() {
  if (events_.empty()) Collect();
  if (events_.empty()) return std::nullopt;
  WatchEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

// Stopping.

bool WatchedProcess::AllStopped() const {
  for (const auto& [thread, state] : threads_) {
    if (state.guest || state.state != Thread::State::kRuns) continue;
    // The first thread stays a zombie until all others have ended.
    if (thread != process_ || !HasEnded(process_, thread)) return false;
  }
  return true;
}

absl::Status WatchedProcess::StopAll(std::chrono::milliseconds patience) {
  const Precedence precedence(0);
  if (!stopping_) first_ns_ = NowNs();
  const bool stopped_before = std::exchange(stopping_, true);
  for (const auto& [thread, state] : threads_) {
    if (state.guest || state.state != Thread::State::kRuns) continue;
    ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  }
  const uint64_t begin_ns = NowNs();
  long pause_ns = kFirstPauseNs;
  while (true) {
    Collect();
    if (ended_) return NoSuchProcess(process_);
    if (AllStopped()) break;
    if (NowNs() - begin_ns > static_cast<uint64_t>(std::chrono::nanoseconds(patience).count())) {
      const auto runs = std::find_if(threads_.begin(), threads_.end(), [](const auto& thread) {
        return !thread.second.guest && thread.second.state == Thread::State::kRuns;
      });
      const pid_t slow = runs == threads_.end() ? process_ : runs->first;
      Resume();
      return absl::UnavailableError(DoesNotStop(process_, slow).message());
    }
    const timespec pause = {0, pause_ns};
    nanosleep(&pause, nullptr);
    pause_ns = std::min(2 * pause_ns, kLongestPauseNs);
  }
  if (!stopped_before) skew_ns_ = NowNs() - first_ns_;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ProcessStop>> WatchedProcess::Stop(
    std::chrono::milliseconds patience) {
  RETURN_IF_ERROR(StopAll(patience));
  code_.TakeOut(LiveThread());
  std::vector<StoppedThread> stopped;
  for (const auto& [thread, state] : threads_) {
    if (state.guest || state.state == Thread::State::kRuns) continue;
    const auto at = thread == process_ ? stopped.begin() : stopped.end();
    stopped.insert(at, {thread, state.group_stop});
  }
  return ProcessStop::Adopt(process_, std::move(stopped), first_ns_, skew_ns_, Options(),
                            wishes_.calls);
}

void WatchedProcess::Resume() {
  if (!stopping_ || ended_) return;
  // All stand still, and no breakpoint is in memory: threads leave their places where they are.
  if (AllStopped()) {
    std::vector<pid_t> to_step;
    for (const auto& [thread, state] : threads_) {
      if (state.at != 0 && !state.held) to_step.push_back(thread);
    }
    for (const pid_t thread : to_step) StepOver(thread);
  }
  stopping_ = false;
  if (wishes_.find_places != nullptr) code_.PutBack(LiveThread());
  std::vector<pid_t> threads;
  for (const auto& [thread, state] : threads_) threads.push_back(thread);
  for (const pid_t thread : threads) {
    const auto found = threads_.find(thread);
    if (found == threads_.end() || found->second.held) continue;
    if (found->second.state != Thread::State::kRuns) Go(thread);
  }
}

void WatchedProcess::Pass(pid_t thread) {
  const auto found = threads_.find(thread);
  if (found == threads_.end()) return;
  found->second.held = false;
  if (!stopping_ && found->second.state != Thread::State::kRuns) Go(thread);
}

void WatchedProcess::EndDueCalls() {
  for (const pid_t thread : wishes_.calls->TakeDue(NowNs())) {
    const auto found = threads_.find(thread);
    if (found == threads_.end() || found->second.state != Thread::State::kRuns) continue;
    ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  }
}

// Going on.

// Requires: stopped, in whatever stop.
void WatchedProcess::StepOver(pid_t thread) {
  Thread& state = threads_.at(thread);
  const uint64_t address = std::exchange(state.at, 0);
  std::optional<StepEnd> end;
  const bool alone = stopping_ || threads_.size() == 1;
  if (!alone && code_.IsIn(address)) end = StepElsewhere(thread, address, code_, scratch_);
  if (!end.has_value()) {
    // In place: nobody else runs, or has to be kept from running.
    const bool was_in = code_.IsIn(address);
    if (was_in && !alone) {
      state.at = address;
      state.held = true;
      const bool stopped = StopAll(kFirstStopTimeout).ok();
      const auto found = threads_.find(thread);
      if (found == threads_.end() || ended_) return;
      found->second.held = false;
      if (stopped) {
        code_.TakeOut(LiveThread());
        Resume();
        return;
      }
      found->second.at = 0;
    }
    if (was_in) code_.TakeOutOne(thread, address);
    end = StepInstruction(thread);
    if (was_in) code_.PutBackOne(LiveThread(), address);
  }
  if (!end->alive) return;  // its end is reported by itself
  if (end->other.has_value()) {
    state.state = Thread::State::kRuns;
    OnStatus(thread, WaitStatus::Decode(*end->other));
  }
}

void WatchedProcess::GoOnWithSignal(pid_t thread, Thread* state) {
  const siginfo_t there = InfoOf(thread);
  if (there.si_signo == state->info.si_signo && there.si_code == state->info.si_code) {
    wishes_.calls->MakeAgain(process_, thread, there.si_signo, state->stopped_ns);
    ptrace(PTRACE_CONT, thread, nullptr, there.si_signo);
    return;
  }
  // A call was made in it meanwhile, which has taken it out of that stop.
  state->again = state->info;
  if (!IsFault(state->info)) syscall(SYS_tgkill, process_, thread, state->info.si_signo);
  ptrace(PTRACE_CONT, thread, nullptr, nullptr);
}

void WatchedProcess::Go(pid_t thread) {
  Thread& state = threads_.at(thread);
  if (state.at != 0 && state.group_stop == 0) {
    if (code_.IsIn(state.at)) {
      StepOver(thread);
      const auto after = threads_.find(thread);
      if (after == threads_.end() || after->second.state == Thread::State::kRuns ||
          after->second.held) {
        return;
      }
    }
    state.at = 0;
  }
  const Thread::State was = std::exchange(state.state, Thread::State::kRuns);
  if (was == Thread::State::kSignal) {
    GoOnWithSignal(thread, &state);
  } else if (state.group_stop != 0) {
    ptrace(PTRACE_LISTEN, thread, nullptr, nullptr);
  } else {
    wishes_.calls->MakeAgain(process_, thread, 0, state.stopped_ns);
    ptrace(PTRACE_CONT, thread, nullptr, nullptr);
  }
}

}  // namespace hindsight
