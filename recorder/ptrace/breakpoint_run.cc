#include "recorder/ptrace/breakpoint_run.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"
#include "recorder/process/scheduling.h"
#include "recorder/ptrace/wait_status.h"

namespace hindsight {
namespace {

constexpr uint8_t kInt3 = 0xcc;

// A new task's first stop comes at once.
constexpr std::chrono::milliseconds kFirstStopTimeout(1000);
constexpr std::chrono::milliseconds kStopTimeout(5000);

// From the exec event to the first instruction of the new program, unless it is killed before.
WaitStatus FinishExec(pid_t thread) {
  ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr);
  return WaitForThread(thread).value_or(WaitStatus());
}

bool IsBreakpointTrap(pid_t thread) {
  siginfo_t info = {};
  return ptrace(PTRACE_GETSIGINFO, thread, nullptr, &info) == 0 && info.si_code == SI_KERNEL;
}

}  // namespace

BreakpointRun::BreakpointRun(pid_t process, FindPlaces find_places, bool guarded)
    : process_(process), find_places_(std::move(find_places)), guarded_(guarded) {}

// Breakpoints.

void BreakpointRun::Insert(const Places& places) {
  hooks_.insert(places.hooks.begin(), places.hooks.end());
  Insert(places.stops);
  Insert(places.hooks);
}

// A thread by whose name the process's memory is found: once the first thread has ended, that is
// not the process's own.
pid_t BreakpointRun::LiveThread() const {
  for (const auto& [thread, state] : threads_) {
    if (!state.guest && !HasEnded(process_, thread)) return thread;
  }
  return process_;
}

absl::Status BreakpointRun::Guard(const ProcMemFile& memory, uint64_t address, uint8_t byte) {
  if (guard_ == nullptr) {
    ASSIGN_OR_RETURN(guard_, BreakpointGuard::Start(memory));
  }
  if (guard_->Add(address, byte)) return absl::OkStatus();
  return absl::ResourceExhaustedError("guarding breakpoints: too many places");
}

// Breakpoints are set whether or not they can be guarded.
void BreakpointRun::WarnUnguarded(const absl::Status& status) {
  guarded_ = false;
  std::fprintf(stderr,
               "hindsight: %s: should the recorder be killed while it waits for a place, process "
               "%d dies of SIGTRAP when it gets there\n",
               std::string(status.message()).c_str(), process_);
}

void BreakpointRun::ForgetAll() {
  inserted_.clear();
  guard_.reset();
}

void BreakpointRun::Insert(absl::Span<const uint64_t> addresses) {
  ProcMemFile memory(LiveThread());
  for (const uint64_t address : addresses) {
    if (inserted_.count(address) != 0) continue;
    uint8_t byte;
    if (!memory.Read(address, absl::MakeSpan(&byte, 1))) continue;  // not mapped yet
    if (guarded_) {
      const absl::Status status = Guard(memory, address, byte);
      if (!status.ok()) WarnUnguarded(status);
    }
    if (memory.Write(address, absl::MakeConstSpan(&kInt3, 1))) inserted_.emplace(address, byte);
  }
}

void BreakpointRun::TakeOut(uint64_t address, pid_t process) {
  ProcMemFile memory(process);
  uint8_t byte;
  // No breakpoint is there any more if it was unmapped meanwhile, and other code mapped.
  if (!memory.Read(address, absl::MakeSpan(&byte, 1)) || byte != kInt3) return;
  memory.Write(address, absl::MakeConstSpan(&inserted_.at(address), 1));
}

void BreakpointRun::TakeOutAll(pid_t process) {
  for (const auto& [address, byte] : inserted_) TakeOut(address, process);
}

// Requires: `thread` is stopped. Others that run may pass the breakpoint meanwhile.
void BreakpointRun::StepOver(pid_t thread) {
  user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, thread, nullptr, &registers) != 0) return;
  const uint64_t address = registers.rip;
  const auto byte = inserted_.find(address);
  if (byte != inserted_.end()) TakeOut(address, thread);
  StepWhile(thread, 1, [&](uint64_t pc) { return pc == address; });
  if (byte != inserted_.end()) {
    inserted_.erase(byte);
    Insert(absl::MakeConstSpan(&address, 1));
  }
}

// Threads.

void BreakpointRun::Start(absl::Span<const StoppedThread> threads, bool leave_places) {
  threads_.clear();
  ForgetAll();
  hooks_.clear();
  outcome_.reset();
  passing_ = 0;
  for (const StoppedThread& thread : threads) {
    threads_[thread.thread] = {.stopped = true, .group_stop = thread.group_stop};
  }
  // The memory of a vfork child is its parent's until it executes a program.
  Places places;
  if (!SharesMemory(process_, StatusNumber(process_, "PPid:"), false)) places = find_places_();
  if (leave_places) {
    for (const auto& [thread, state] : threads_) {
      user_regs_struct registers = {};
      ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
      const bool there = std::count(places.stops.begin(), places.stops.end(), registers.rip) != 0;
      if (there && state.group_stop == 0) StepOver(thread);
    }
  }
  Insert(places);
  ContinueAll();
}

void BreakpointRun::ContinueAll() {
  mode_ = Mode::kRunning;
  for (auto& [thread, state] : threads_) {
    if (!state.stopped) continue;
    state.stopped = false;
    if (state.group_stop != 0) {
      ptrace(PTRACE_LISTEN, thread, nullptr, nullptr);
    } else {
      Continue(thread, 0);
    }
  }
}

// Any stop takes back the request to stop, so it is made again.
void BreakpointRun::Continue(pid_t thread, int signal) {
  const auto it = threads_.find(thread);
  if (mode_ == Mode::kStopping && it != threads_.end() && !it->second.guest) {
    ContinueToStop(thread, signal);
  } else {
    ptrace(PTRACE_CONT, thread, nullptr, signal);
  }
}

// Guests run on: a thread that waits for its vfork child cannot stop before that has got memory of
// its own.
void BreakpointRun::BeginStopping(std::optional<NativeEvent> outcome) {
  if (mode_ == Mode::kStopping && outcome_.has_value()) return;
  outcome_ = std::move(outcome);
  mode_ = Mode::kStopping;
  for (const auto& [thread, state] : threads_) {
    if (!state.stopped && !state.guest) ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  }
}

void BreakpointRun::RequestStop() {
  if (mode_ == Mode::kIdle) return;
  BeginStopping(NativeEvent{.kind = NativeEventKind::kStopped});
}

std::optional<NativeEvent> BreakpointRun::OnTick() {
  return mode_ == Mode::kStopping ? FinishStopping() : std::nullopt;
}

std::optional<NativeEvent> BreakpointRun::FinishStopping() {
  for (const auto& [thread, state] : threads_) {
    if (state.stopped || state.guest) continue;
    // The first thread stays a zombie until all others have ended.
    if (thread != process_ || !HasEnded(process_, thread)) return std::nullopt;
  }
  if (!outcome_.has_value()) {
    const pid_t thread = std::exchange(passing_, 0);
    Insert(find_places_());
    StepOver(thread);
    ContinueAll();
    return std::nullopt;
  }
  TakeOutAll(LiveThread());
  ForgetAll();
  LetGuestsGo();
  mode_ = Mode::kIdle;
  return std::exchange(outcome_, std::nullopt);
}

// Requires: no breakpoint is in their memory any more.
void BreakpointRun::LetGuestsGo() {
  for (auto it = threads_.begin(); it != threads_.end();) {
    if (!it->second.guest) {
      ++it;
      continue;
    }
    ptrace(PTRACE_INTERRUPT, it->first, nullptr, nullptr);
    WaitForSeizedStop(it->first, kStopTimeout);
    Detach(it->first);
    it = threads_.erase(it);
  }
}

std::vector<StoppedThread> BreakpointRun::threads() const {
  std::vector<StoppedThread> result;
  for (const auto& [thread, state] : threads_) {
    if (state.guest || !state.stopped) continue;
    const auto at = thread == process_ ? result.begin() : result.end();
    result.insert(at, {thread, state.group_stop});
  }
  return result;
}

bool BreakpointRun::Owns(pid_t thread) const {
  if (thread == process_ || threads_.count(thread) != 0) return true;
  return StatusNumber(thread, "Tgid:") == process_ || StatusNumber(thread, "PPid:") == process_;
}

// What happens to them.

std::optional<NativeEvent> BreakpointRun::OnStop(pid_t thread, int wait_status) {
  const WaitStatus status = WaitStatus::Decode(wait_status);
  if (!status.stopped()) return OnEnd(thread, wait_status);
  if (threads_.count(thread) == 0) {
    if (StatusNumber(thread, "Tgid:") != process_) {
      early_.insert(thread);
      return std::nullopt;
    }
    threads_[thread] = {};
  }
  switch (status.event) {
    case 0:
      OnSignal(thread, status.signal_to_deliver());
      return std::nullopt;
    case PTRACE_EVENT_STOP:
      return OnEventStop(thread, status.group_stop());
    case PTRACE_EVENT_CLONE:
    case PTRACE_EVENT_FORK:
      return OnNewTask(thread, /*vfork=*/false);
    case PTRACE_EVENT_VFORK:
      return OnNewTask(thread, /*vfork=*/true);
    case PTRACE_EVENT_EXEC:
      return OnExec(thread);
    default:
      Continue(thread, 0);
      return std::nullopt;
  }
}

std::optional<NativeEvent> BreakpointRun::OnEnd(pid_t thread, int wait_status) {
  early_.erase(thread);
  threads_.erase(thread);
  if (thread == process_) {
    // The last one. Guests have the memory to themselves now.
    for (const auto& [guest, state] : threads_) TakeOutAll(guest);
    LetGuestsGo();
    mode_ = Mode::kIdle;
    return NativeEvent{
        .kind = NativeEventKind::kExited, .thread = thread, .wait_status = wait_status};
  }
  if (mode_ != Mode::kStopping) return std::nullopt;
  if (thread == passing_) passing_ = 0;
  return FinishStopping();
}

std::optional<NativeEvent> BreakpointRun::OnEventStop(pid_t thread, int group_stop) {
  Thread& state = threads_[thread];
  state.group_stop = group_stop;
  if (mode_ == Mode::kStopping && !state.guest) {
    state.stopped = true;
    return FinishStopping();
  }
  if (state.group_stop != 0) {
    ptrace(PTRACE_LISTEN, thread, nullptr, nullptr);
  } else {
    Continue(thread, 0);
  }
  return std::nullopt;
}

std::optional<NativeEvent> BreakpointRun::OnNewTask(pid_t thread, bool vfork) {
  const pid_t child = TaskOfEvent(thread);
  const bool came_early = early_.erase(child) != 0;
  std::optional<NativeEvent> event;
  if (StatusNumber(child, "Tgid:") == process_) {
    threads_.try_emplace(child);
  } else if (SharesMemory(thread, child, vfork)) {
    threads_[child] = {.guest = true};
    if (came_early) Continue(child, 0);
  } else {
    if (!came_early) WaitForSeizedStop(child, kFirstStopTimeout);
    TakeOutAll(child);
    event = NativeEvent{.kind = NativeEventKind::kForked, .thread = thread, .child = child};
  }
  Continue(thread, 0);
  return event;
}

std::optional<NativeEvent> BreakpointRun::OnExec(pid_t thread) {
  const bool guest = threads_[thread].guest;
  const WaitStatus status = FinishExec(thread);
  if (!status.stopped()) return OnEnd(thread, status.raw);
  if (guest) {
    threads_.erase(thread);
    return NativeEvent{.kind = NativeEventKind::kForked, .child = thread, .after_exec = true};
  }
  // The old memory is left to guests, if there are any. The other threads are gone.
  for (const auto& [other, state] : threads_) {
    if (state.guest) TakeOutAll(other);
  }
  LetGuestsGo();
  ForgetAll();
  threads_.clear();
  threads_[process_] = {.stopped = true};
  mode_ = Mode::kIdle;
  outcome_.reset();
  return NativeEvent{.kind = NativeEventKind::kExec, .thread = process_};
}

void BreakpointRun::OnSignal(pid_t thread, int signal) {
  if (signal == 0) {  // a system call
    Continue(thread, 0);
    return;
  }
  user_regs_struct registers = {};
  ptrace(PTRACE_GETREGS, thread, nullptr, &registers);
  const uint64_t address = registers.rip - 1;
  if (signal != SIGTRAP || inserted_.count(address) == 0 || !IsBreakpointTrap(thread)) {
    Continue(thread, signal);
    return;
  }
  registers.rip = address;
  ptrace(PTRACE_SETREGS, thread, nullptr, &registers);
  if (threads_[thread].guest) {
    StepOver(thread);
  } else if (mode_ == Mode::kRunning && hooks_.count(address) != 0) {
    passing_ = thread;
    BeginStopping(std::nullopt);
  } else if (hooks_.count(address) == 0) {
    BeginStopping(
        NativeEvent{.kind = NativeEventKind::kReached, .thread = thread, .address = address});
  }
  // In a stop that is to be, the thread goes on without an instruction, to PTRACE_EVENT_STOP.
  Continue(thread, 0);
}

absl::StatusOr<NativeEvent> BreakpointRun::Wait(const std::function<bool()>& stop_now) {
  while (true) {
    int status;
    const pid_t thread = waitpid(-1, &status, __WALL);
    std::optional<NativeEvent> event;
    if (thread > 0) {
      if (Owns(thread) || WaitStatus::Decode(status).stopped()) event = OnStop(thread, status);
    } else if (errno == EINTR) {
      if (stop_now && stop_now()) RequestStop();
      event = OnTick();
    } else {
      return absl::InternalError(absl::StrCat("waitpid: ", strerror(errno)));
    }
    if (event.has_value()) return *event;
  }
}

}  // namespace hindsight
