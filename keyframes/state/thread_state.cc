#include "keyframes/state/thread_state.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// Events are listed by the state they lead to; their transition starts one state earlier.
const ProcessEvent* EventAtOrAfter(const std::vector<const ProcessEvent*>& events,
                                   uint64_t from_count) {
  auto it = std::partition_point(events.begin(), events.end(), [&](const ProcessEvent* event) {
    return event->count <= from_count;
  });
  return it == events.end() ? nullptr : *it;
}

const ProcessEvent* EventBefore(const std::vector<const ProcessEvent*>& events,
                                uint64_t from_count) {
  auto it = std::partition_point(events.begin(), events.end(), [&](const ProcessEvent* event) {
    return event->count <= from_count;
  });
  return it == events.begin() ? nullptr : *std::prev(it);
}

const ProcessEvent* EventFrom(const std::vector<const ProcessEvent*>& events, uint64_t count) {
  const ProcessEvent* event = EventAtOrAfter(events, count);
  return event != nullptr && event->count == count + 1 ? event : nullptr;
}

// Whether an orderable event of this kind is one of the thread's own, that its steps are counted
// from.
bool IsOwn(EventKind kind) {
  return kind == EventKind::kSyscall || kind == EventKind::kSignal || kind == EventKind::kExec ||
         kind == EventKind::kFork || kind == EventKind::kThreadStart || kind == EventKind::kSlice;
}

bool ByCount(const ProcessEvent* a, const ProcessEvent* b) { return a->count < b->count; }

// The thread's last state according to the events, if they say.
std::optional<uint64_t> ExitCount(absl::Span<const ProcessEvent* const> events, int32_t thread) {
  for (size_t i = events.size(); i-- > 0;) {
    if (events[i]->kind == EventKind::kThreadExit && events[i]->thread == thread) {
      return events[i]->count;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<ThreadState> ThreadState::Create(const TraceReader* trace, int32_t thread) {
  const std::vector<int32_t> threads = trace->threads();
  if (thread == 0 && !threads.empty()) thread = threads.front();
  std::vector<const ProcessEvent*> events;
  for (const ProcessEvent& event : trace->events()) {
    if (event.thread == 0 || event.thread == thread) events.push_back(&event);
  }
  return Create(trace, thread, events, std::make_shared<OrderIndex>(trace), false);
}

absl::StatusOr<ThreadState> ThreadState::Create(const TraceReader* trace, int32_t thread,
                                                absl::Span<const ProcessEvent* const> events,
                                                std::shared_ptr<OrderIndex> order,
                                                bool trust_exit) {
  ThreadState state;
  state.trace_ = trace;
  state.thread_ = thread;
  state.order_ = std::move(order);
  const std::vector<SegmentInfo>& segments = trace->segments(thread);
  if (segments.empty()) {
    return absl::NotFoundError(
        absl::StrCat(trace->directory(), ": no segment of thread ", thread, " in the trace"));
  }
  state.begin_count_ = segments.front().first_count;
  const std::optional<uint64_t> exit = ExitCount(events, thread);
  if (trust_exit && exit.has_value() && *exit >= segments.back().first_count) {
    state.end_count_ = *exit;
  } else {
    ASSIGN_OR_RETURN(std::shared_ptr<const Segment> last,
                     trace->LoadSegment(thread, segments.back().number));
    state.end_count_ = last->end_count();
  }
  state.AddEvents(events);
  return state;
}

void ThreadState::AddEvents(absl::Span<const ProcessEvent* const> events) {
  for (const ProcessEvent* event : events) {
    // Events and segments are flushed separately: an interrupted trace may hold events after the
    // last state that can be replayed. One state further is kept: the system call or signal that
    // ended the thread leads to a state that never was.
    if (event->count > end_count_ + 1) continue;
    events_.push_back(event);
    if (event->thread != 0 && event->count <= end_count_) AddPoint(*event);
    if (event->kind == EventKind::kThreadExit) exits_ = true;
    if (event->kind == EventKind::kThreadName) names_.push_back(event);
    if (event->kind == EventKind::kThreadStart) {
      start_sequence_ = event->sequence;
      creator_ = static_cast<int32_t>(event->number);
      if (!event->text.empty()) names_.push_back(event);
    }
    if (event->count <= begin_count_) continue;
    if (event->kind == EventKind::kSignal) signals_.push_back(event);
    if (event->kind == EventKind::kSyscall) syscalls_.push_back(event);
    if (event->kind == EventKind::kExec) execs_.push_back(event);
  }
  for (auto* list : {&events_, &signals_, &syscalls_, &execs_, &names_}) {
    std::stable_sort(list->begin(), list->end(), ByCount);
  }
  SortPoints();
}

void ThreadState::AddPoint(const ProcessEvent& event) {
  if (event.sequence == 0 || !IsOwn(event.kind)) return;
  const bool begins = event.kind == EventKind::kThreadStart || event.kind == EventKind::kSlice;
  points_.push_back({{event.sequence, event.count}, begins});
}

void ThreadState::SortPoints() {
  std::stable_sort(points_.begin(), points_.end(),
                   [](const Point& a, const Point& b) { return a.sequence < b.sequence; });
  // A sequence number names one event, and later events have no earlier states; what breaks this in
  // a damaged trace would make positions ambiguous.
  auto bad = [](const Point& a, const Point& b) {
    return b.sequence == a.sequence || b.count < a.count;
  };
  points_.erase(std::unique(points_.begin(), points_.end(), bad), points_.end());
}

uint64_t ThreadState::SegmentAt(uint64_t count) const {
  const std::vector<SegmentInfo>& segments = trace_->segments(thread_);
  auto it = std::partition_point(segments.begin(), segments.end(), [&](const SegmentInfo& segment) {
    return segment.first_count <= count;
  });
  CHECK(it != segments.begin());
  return std::prev(it)->number;
}

std::string ThreadState::NameAt(uint64_t count) const {
  auto it = std::partition_point(names_.begin(), names_.end(),
                                 [&](const ProcessEvent* event) { return event->count <= count; });
  return it == names_.begin() ? "" : (*std::prev(it))->text;
}

Position ThreadState::PositionAt(uint64_t count, uint64_t sequence_limit) const {
  auto it = std::partition_point(points_.begin(), points_.end(), [&](const Point& point) {
    return point.count <= count && point.sequence < sequence_limit;
  });
  SequencePoint known = {0, begin_count_};
  if (it != points_.begin()) known = *std::prev(it);
  if (order_->any()) known = LastInstruction(known, count, sequence_limit).value_or(known);
  return {known.sequence, count - known.count};
}

std::optional<SequencePoint> ThreadState::LastInstruction(const SequencePoint& known,
                                                          uint64_t count,
                                                          uint64_t sequence_limit) const {
  const std::vector<SegmentInfo>& segments = trace_->segments(thread_);
  auto segment =
      std::partition_point(segments.begin(), segments.end(),
                           [&](const SegmentInfo& info) { return info.first_count < count; });
  while (segment != segments.begin()) {
    --segment;
    const auto points = order_->Of(thread_, segment->number);
    auto it = std::partition_point(points->begin(), points->end(), [&](const SequencePoint& point) {
      return point.count <= count && point.sequence < sequence_limit;
    });
    if (it != points->begin()) {
      if (std::prev(it)->sequence <= known.sequence) return std::nullopt;
      return *std::prev(it);
    }
    // Nothing of the whole process had a number between the event known and this segment.
    if (segment->first_count <= known.count || segment->first_sequence <= known.sequence) break;
  }
  return std::nullopt;
}

absl::StatusOr<uint64_t> ThreadState::CountAt(const Position& position) const {
  auto none = [&] {
    return absl::OutOfRangeError(absl::StrCat(
        "no position ", ToString(position), " in the recording (",
        ToString(PositionAt(begin_count_)), " to ", ToString(PositionAt(end_count_)), ")"));
  };
  std::optional<uint64_t> base;
  if (position.sequence == 0) base = begin_count_;
  auto next = std::partition_point(points_.begin(), points_.end(), [&](const Point& point) {
    return point.sequence < position.sequence;
  });
  if (next != points_.end() && next->sequence == position.sequence) base = (next++)->count;
  if (!base.has_value()) base = InstructionAt(position.sequence);
  if (!base.has_value() || position.steps > end_count_ - *base) return none();
  const uint64_t count = *base + position.steps;
  if (count < begin_count_) return none();  // it has been dropped
  if (position.steps == 0) return count;
  // The state that a later event led to is counted from that one. Where a slice begins the thread
  // has stood since the one before.
  uint64_t limit = ~uint64_t{0};
  if (next != points_.end() && next->begins && next->count == count) limit = next->sequence;
  if (limit == ~uint64_t{0} && next != points_.end() && next->count <= count) return none();
  const SequencePoint known = {position.sequence, *base};
  if (order_->any() && LastInstruction(known, count, limit).has_value()) return none();
  return count;
}

// The state that the orderable instruction `sequence` led to.
std::optional<uint64_t> ThreadState::InstructionAt(uint64_t sequence) const {
  if (!order_->any()) return std::nullopt;
  const std::vector<SegmentInfo>& segments = trace_->segments(thread_);
  auto segment =
      std::partition_point(segments.begin(), segments.end(),
                           [&](const SegmentInfo& info) { return info.first_sequence < sequence; });
  if (segment == segments.begin()) return std::nullopt;
  const auto points = order_->Of(thread_, std::prev(segment)->number);
  auto it = std::partition_point(points->begin(), points->end(), [&](const SequencePoint& point) {
    return point.sequence < sequence;
  });
  if (it == points->end() || it->sequence != sequence) return std::nullopt;
  return it->count;
}

uint64_t ThreadState::CountOfBirth(int32_t thread, uint64_t start_sequence) const {
  auto next = std::partition_point(points_.begin(), points_.end(), [&](const Point& point) {
    return point.sequence < start_sequence;
  });
  const uint64_t before = next == points_.begin() ? begin_count_ : std::prev(next)->count;
  // The call's own number may be the one before the thread's or the one after it.
  const ProcessEvent* call = before > begin_count_ ? SyscallFrom(before - 1) : nullptr;
  if (call != nullptr && call->result == thread) return before;
  call = NextSyscall(before);
  if (call != nullptr && call->result == thread) return std::min(call->count, end_count_);
  return before;
}

const ProcessEvent* ThreadState::SignalFrom(uint64_t count) const {
  return EventFrom(signals_, count);
}
const ProcessEvent* ThreadState::ExecTo(uint64_t count) const {
  return count == 0 ? nullptr : EventFrom(execs_, count - 1);
}
const ProcessEvent* ThreadState::SyscallFrom(uint64_t count) const {
  return EventFrom(syscalls_, count);
}
const ProcessEvent* ThreadState::NextSyscall(uint64_t count) const {
  return EventAtOrAfter(syscalls_, count);
}
const ProcessEvent* ThreadState::PreviousSyscall(uint64_t count) const {
  return EventBefore(syscalls_, count);
}

}  // namespace hindsight
