#include "keyframes/timeline/event_stops.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "keyframes/state/first_after.h"

namespace hindsight {
namespace {

bool StopsForSignal(const RunRequest& request, int64_t signal) {
  return !request.stop_for_signal || request.stop_for_signal(static_cast<int>(signal));
}

bool StopsForSyscall(const RunRequest& request, int64_t number) {
  return request.stop_for_syscall && request.stop_for_syscall(number);
}

RunStop SignalStop(const ProcessEvent& event) {
  return {
      .kind = StopKind::kSignal, .thread = event.thread, .signal = static_cast<int>(event.number)};
}

RunStop SyscallStop(StopKind kind, const ProcessEvent& event) {
  return {.kind = kind, .thread = event.thread, .syscall = event.number};
}

RunStop ExecStop(const ProcessEvent& event) {
  return {.kind = StopKind::kExec, .thread = event.thread};
}

RunStop ForkStop(const ProcessEvent& event) {
  const bool vfork =
      !event.arguments.empty() && static_cast<ForkKind>(event.arguments[0]) == ForkKind::kVfork;
  return {.kind = vfork ? StopKind::kVfork : StopKind::kFork,
          .thread = event.thread,
          .child = static_cast<int32_t>(event.result)};
}

using Events = std::vector<TimelineEvent>;

template <typename Filter>
const TimelineEvent* NextOf(const Events& events, uint64_t moment, const Filter& filter) {
  auto it = std::find_if(FirstAfter(events, moment), events.end(),
                         [&](const TimelineEvent& event) { return filter(*event.event); });
  return it == events.end() ? nullptr : &*it;
}

template <typename Filter>
const TimelineEvent* LastOf(const Events& events, uint64_t moment, const Filter& filter) {
  for (auto it = FirstAfter(events, moment); it != events.begin();) {
    if (filter(*(--it)->event)) return &*it;
  }
  return nullptr;
}

// The same among events of the numbers wanted. Of those at one moment the order is the trace's.
template <typename Wanted, typename Filter>
const TimelineEvent* NextOf(const NumberedEvents& numbers, uint64_t moment, const Wanted& wanted,
                            const Filter& filter) {
  const TimelineEvent* first = nullptr;
  for (const auto& [number, events] : numbers) {
    const TimelineEvent* next = wanted(number) ? NextOf(events, moment, filter) : nullptr;
    if (next != nullptr && (first == nullptr || std::tie(next->moment, next->event) <
                                                    std::tie(first->moment, first->event))) {
      first = next;
    }
  }
  return first;
}

template <typename Wanted, typename Filter>
const TimelineEvent* LastOf(const NumberedEvents& numbers, uint64_t moment, const Wanted& wanted,
                            const Filter& filter) {
  const TimelineEvent* latest = nullptr;
  for (const auto& [number, events] : numbers) {
    const TimelineEvent* last = wanted(number) ? LastOf(events, moment, filter) : nullptr;
    if (last != nullptr && (latest == nullptr || std::tie(last->moment, last->event) >
                                                     std::tie(latest->moment, latest->event))) {
      latest = last;
    }
  }
  return latest;
}

bool IsWanted(int32_t only, int32_t thread) { return only == 0 || thread == only; }

}  // namespace

// The stop at the present moment that a run still owes: the entry to the call that is made next,
// where the last run stopped after the call before, and the other way round. Threads' turns begin
// and end at calls.
std::optional<RunStop> EventStops::AtSameMoment(const RunRequest& request, int32_t only,
                                                StopKind reported, uint64_t moment) const {
  const auto wanted = [&](int64_t number) { return StopsForSyscall(request, number); };
  const auto any = [&](const ProcessEvent& event) { return IsWanted(only, event.thread); };
  if (request.direction == Direction::kForward && reported == StopKind::kSyscallReturn) {
    const TimelineEvent* call = NextOf(process_->syscalls(), moment, wanted, any);
    if (call != nullptr && call->moment == moment + 1) {
      return SyscallStop(StopKind::kSyscallEntry, *call->event);
    }
  }
  if (request.direction == Direction::kBackward && reported == StopKind::kSyscallEntry) {
    const TimelineEvent* call = LastOf(process_->syscalls(), moment, wanted, any);
    if (call != nullptr && call->moment == moment) {
      return SyscallStop(StopKind::kSyscallReturn, *call->event);
    }
  }
  return std::nullopt;
}

std::optional<EventStop> EventStops::Next(const RunRequest& request, int32_t only,
                                          uint64_t after) const {
  std::optional<EventStop> next;
  auto offer = [&next](uint64_t moment, const RunStop& stop) {
    if (!next.has_value() || moment < next->moment) next = EventStop{moment, stop};
  };
  const auto any = [&](const ProcessEvent& event) { return IsWanted(only, event.thread); };
  // The transition that an event is was made out of the moment before the event's.
  const auto wanted_signal = [&](int64_t signal) { return StopsForSignal(request, signal); };
  const TimelineEvent* signal = NextOf(process_->signals(), after + 1, wanted_signal, any);
  if (signal != nullptr) offer(signal->moment - 1, SignalStop(*signal->event));
  const auto wanted_call = [&](int64_t number) { return StopsForSyscall(request, number); };
  const TimelineEvent* syscall = NextOf(process_->syscalls(), after, wanted_call, any);
  if (syscall != nullptr && syscall->moment - 1 <= after) {
    const ProcessEvent& event = *syscall->event;
    if (event.count <= process_->thread(event.thread).end_count()) {
      offer(syscall->moment, SyscallStop(StopKind::kSyscallReturn, event));
    }
    syscall = NextOf(process_->syscalls(), after + 1, wanted_call, any);
  }
  if (syscall != nullptr) {
    offer(syscall->moment - 1, SyscallStop(StopKind::kSyscallEntry, *syscall->event));
  }
  const TimelineEvent* exec =
      request.stop_for_exec ? NextOf(process_->execs(), after, any) : nullptr;
  if (exec != nullptr && exec->moment <= process_->end_moment()) {
    offer(exec->moment, ExecStop(*exec->event));
  }
  const TimelineEvent* fork =
      request.stop_for_fork ? NextOf(process_->forks(), after, any) : nullptr;
  if (fork != nullptr && fork->moment <= process_->end_moment()) {
    offer(fork->moment, ForkStop(*fork->event));
  }
  if (const auto thread = NextThreadStop(request, only, after)) offer(thread->moment, thread->stop);
  return next;
}

std::optional<EventStop> EventStops::Previous(const RunRequest& request, int32_t only,
                                              uint64_t before) const {
  std::optional<EventStop> previous;
  auto offer = [&previous](uint64_t moment, const RunStop& stop) {
    if (!previous.has_value() || moment > previous->moment) previous = EventStop{moment, stop};
  };
  const auto any = [&](const ProcessEvent& event) { return IsWanted(only, event.thread); };
  const auto wanted_signal = [&](int64_t signal) { return StopsForSignal(request, signal); };
  const TimelineEvent* signal = LastOf(process_->signals(), before, wanted_signal, any);
  if (signal != nullptr) offer(signal->moment - 1, SignalStop(*signal->event));
  const auto wanted_call = [&](int64_t number) { return StopsForSyscall(request, number); };
  const TimelineEvent* syscall = LastOf(process_->syscalls(), before, wanted_call, any);
  if (syscall != nullptr) {
    const ProcessEvent& event = *syscall->event;
    const bool made =
        syscall->moment < before && event.count <= process_->thread(event.thread).end_count();
    offer(made ? syscall->moment : syscall->moment - 1,
          SyscallStop(made ? StopKind::kSyscallReturn : StopKind::kSyscallEntry, event));
  }
  const TimelineEvent* exec =
      request.stop_for_exec ? LastOf(process_->execs(), before, any) : nullptr;
  if (exec != nullptr) offer(exec->moment - 1, ExecStop(*exec->event));
  const TimelineEvent* fork =
      request.stop_for_fork ? LastOf(process_->forks(), before, any) : nullptr;
  if (fork != nullptr) offer(fork->moment - 1, ForkStop(*fork->event));
  if (const auto thread = PreviousThreadStop(request, only, before)) {
    offer(thread->moment, thread->stop);
  }
  return previous;
}

std::optional<EventStop> EventStops::NextThreadStop(const RunRequest& request, int32_t only,
                                                    uint64_t after) const {
  std::optional<EventStop> next;
  if (!request.stop_for_threads) return next;
  for (int32_t thread : process_->threads().all()) {
    if (!IsWanted(only, thread)) continue;
    auto offer = [&](uint64_t moment, StopKind kind) {
      if (moment <= after || (next.has_value() && next->moment <= moment)) return;
      next = EventStop{moment, {.kind = kind, .thread = thread}};
    };
    if (!process_->threads().BeginsLate(thread)) {
      offer(process_->threads().StartOf(thread), StopKind::kThreadStart);
    }
    if (process_->thread(thread).exits()) {
      offer(process_->threads().EndOf(thread), StopKind::kThreadExit);
    }
  }
  return next;
}

std::optional<EventStop> EventStops::PreviousThreadStop(const RunRequest& request, int32_t only,
                                                        uint64_t before) const {
  std::optional<EventStop> previous;
  if (!request.stop_for_threads) return previous;
  for (int32_t thread : process_->threads().all()) {
    if (!IsWanted(only, thread)) continue;
    auto offer = [&](uint64_t moment, StopKind kind) {
      if (moment >= before || (previous.has_value() && previous->moment >= moment)) return;
      previous = EventStop{moment, {.kind = kind, .thread = thread}};
    };
    // Those that were there when the recording began did not start in it.
    if (process_->threads().StartOf(thread) > 0 && !process_->threads().BeginsLate(thread)) {
      offer(process_->threads().StartOf(thread), StopKind::kThreadStart);
    }
    if (process_->thread(thread).exits()) {
      offer(process_->threads().EndOf(thread), StopKind::kThreadExit);
    }
  }
  return previous;
}

std::optional<RunStop> EventStops::InState(const RunRequest& request, int32_t thread,
                                           uint64_t count) const {
  const ThreadState& state = process_->thread(thread);
  // The state after an exec or a fork if it was stepped over forward, the one before if backward.
  const uint64_t after = request.direction == Direction::kForward ? count : count + 1;
  const ProcessEvent* exec = state.ExecTo(after);
  if (request.stop_for_exec && exec != nullptr) return ExecStop(*exec);
  const uint64_t moment = process_->schedule().MomentTo(thread, after);
  const TimelineEvent* fork =
      request.stop_for_fork && moment > 0
          ? NextOf(process_->forks(), moment - 1, [](const ProcessEvent&) { return true; })
          : nullptr;
  if (fork != nullptr && fork->event->thread == thread && fork->event->count == after) {
    return ForkStop(*fork->event);
  }
  const ProcessEvent* signal = state.SignalFrom(count);
  if (signal != nullptr && StopsForSignal(request, signal->number)) return SignalStop(*signal);
  const ProcessEvent* syscall = state.SyscallFrom(count);
  if (syscall != nullptr && StopsForSyscall(request, syscall->number)) {
    return SyscallStop(StopKind::kSyscallEntry, *syscall);
  }
  syscall = count == 0 ? nullptr : state.SyscallFrom(count - 1);
  if (syscall != nullptr && StopsForSyscall(request, syscall->number)) {
    return SyscallStop(StopKind::kSyscallReturn, *syscall);
  }
  return std::nullopt;
}

}  // namespace hindsight
