// What a run request says of stops, and where events stop a run.

#include <algorithm>

#include "keyframes/thread_timeline.h"

namespace hindsight {
namespace {

bool StopsForSignal(const RunRequest& request, const ProcessEvent& event) {
  return !request.stop_for_signal || request.stop_for_signal(static_cast<int>(event.number));
}

bool StopsForSyscall(const RunRequest& request, const ProcessEvent& event) {
  return request.stop_for_syscall && request.stop_for_syscall(event.number);
}

RunStop SignalStop(const ProcessEvent& event) {
  return {.kind = RunStopKind::kSignal, .signal = static_cast<int>(event.number)};
}

RunStop SyscallStop(RunStopKind kind, const ProcessEvent& event) {
  return {.kind = kind, .syscall = event.number};
}

}  // namespace

std::optional<size_t> ThreadTimeline::MatchingBreakpoint(const RunRequest& request) {
  const uint64_t pc = here_->pc();
  for (size_t i = 0; i < request.breakpoints.size(); ++i) {
    const PcStop& stop = request.breakpoints[i];
    if (stop.address == pc && (!stop.condition || stop.condition(state_.thread()))) return i;
  }
  return std::nullopt;
}

bool ThreadTimeline::WatchHolds(const RunRequest& request, size_t index) const {
  const DataStop& stop = request.watchpoints[index];
  return !stop.condition || stop.condition(state_.thread());
}

RunStop ThreadTimeline::WatchStop(const RunRequest& request, const WatchHit& hit) const {
  const DataStop& watched = request.watchpoints[hit.index];
  RunStop stop;
  stop.kind = RunStopKind::kWatchpoint;
  stop.index = hit.index;
  // An access may begin before the watched range.
  stop.address = std::max(hit.address, watched.address);
  stop.was_read = !watched.on_write;
  return stop;
}

std::optional<ThreadTimeline::EventStop> ThreadTimeline::NextEventStop(const RunRequest& request,
                                                                       uint64_t after) const {
  std::optional<EventStop> next = NextSignalOrSyscallStop(request, after);
  const ProcessEvent* exec = nullptr;
  for (const TimelineEvent& event : process_->execs()) {
    if (request.stop_for_exec && exec == nullptr && event.event->count > after) exec = event.event;
  }
  if (exec == nullptr || exec->count > state_.end_count()) return next;
  if (next.has_value() && next->count < exec->count) return next;
  return EventStop{exec->count, {.kind = RunStopKind::kExec}};
}

std::optional<ThreadTimeline::EventStop> ThreadTimeline::NextSignalOrSyscallStop(
    const RunRequest& request, uint64_t after) const {
  std::optional<EventStop> next;
  const ProcessEvent* signal = state_.NextSignal(after + 1);
  while (signal != nullptr && !StopsForSignal(request, *signal)) {
    signal = state_.NextSignal(signal->count);
  }
  if (signal != nullptr) next = EventStop{signal->count - 1, SignalStop(*signal)};
  if (!request.stop_for_syscall) return next;

  const ProcessEvent* syscall = state_.NextSyscall(after);
  while (syscall != nullptr && !StopsForSyscall(request, *syscall)) {
    syscall = state_.NextSyscall(syscall->count);
  }
  if (syscall == nullptr) return next;
  const bool entry = syscall->count - 1 > after;
  const uint64_t count = entry ? syscall->count - 1 : syscall->count;
  if (count > state_.end_count() || (next.has_value() && next->count <= count)) return next;
  return EventStop{
      count,
      SyscallStop(entry ? RunStopKind::kSyscallEntry : RunStopKind::kSyscallReturn, *syscall)};
}

std::optional<ThreadTimeline::EventStop> ThreadTimeline::PreviousEventStop(
    const RunRequest& request, uint64_t before) const {
  std::optional<EventStop> previous = PreviousSignalOrSyscallStop(request, before);
  const ProcessEvent* exec = request.stop_for_exec ? process_->LastExec(MomentOf(before)) : nullptr;
  if (exec == nullptr) return previous;
  if (previous.has_value() && previous->count >= exec->count) return previous;
  return EventStop{exec->count - 1, {.kind = RunStopKind::kExec}};
}

std::optional<ThreadTimeline::EventStop> ThreadTimeline::PreviousSignalOrSyscallStop(
    const RunRequest& request, uint64_t before) const {
  std::optional<EventStop> previous;
  const ProcessEvent* signal = state_.PreviousSignal(before);
  while (signal != nullptr && !StopsForSignal(request, *signal)) {
    signal = state_.PreviousSignal(signal->count - 1);
  }
  if (signal != nullptr) previous = EventStop{signal->count - 1, SignalStop(*signal)};
  if (!request.stop_for_syscall) return previous;

  const ProcessEvent* syscall = state_.PreviousSyscall(before);
  while (syscall != nullptr && !StopsForSyscall(request, *syscall)) {
    syscall = state_.PreviousSyscall(syscall->count - 1);
  }
  if (syscall == nullptr) return previous;
  const bool behind = syscall->count < before;
  const uint64_t count = behind ? syscall->count : syscall->count - 1;
  if (previous.has_value() && previous->count >= count) return previous;
  return EventStop{
      count,
      SyscallStop(behind ? RunStopKind::kSyscallReturn : RunStopKind::kSyscallEntry, *syscall)};
}

std::optional<RunStop> ThreadTimeline::EventStopAt(const RunRequest& request,
                                                   uint64_t count) const {
  if (request.stop_for_exec) {
    // The state behind an exec if it was stepped over forward, the one before if backward.
    const uint64_t behind = request.direction == RunDirection::kForward ? count : count + 1;
    if (state_.ExecTo(behind) != nullptr) return RunStop{.kind = RunStopKind::kExec};
  }
  const ProcessEvent* signal = state_.SignalFrom(count);
  if (signal != nullptr && StopsForSignal(request, *signal)) return SignalStop(*signal);
  const ProcessEvent* syscall = state_.SyscallFrom(count);
  if (syscall != nullptr && StopsForSyscall(request, *syscall)) {
    return SyscallStop(RunStopKind::kSyscallEntry, *syscall);
  }
  syscall = count == 0 ? nullptr : state_.SyscallFrom(count - 1);
  if (syscall != nullptr && StopsForSyscall(request, *syscall)) {
    return SyscallStop(RunStopKind::kSyscallReturn, *syscall);
  }
  return std::nullopt;
}

}  // namespace hindsight
