#include "keyframes/process_state.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// Linux lets a stack grow to RLIMIT_STACK; the map in the trace shows how far it had grown.
constexpr uint64_t kStackGrowthBytes = uint64_t{8} << 20;

const std::vector<MapRegion>& NoMaps() {
  static const auto* const kNone = new std::vector<MapRegion>;
  return *kNone;
}

// The events stand for the state they lead to; their transition starts one state earlier.
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

bool LeadsToState(EventKind kind) {
  return kind == EventKind::kSyscall || kind == EventKind::kSignal || kind == EventKind::kExec;
}

}  // namespace

absl::StatusOr<ProcessState> ProcessState::Create(const TraceReader* trace, int32_t thread) {
  ProcessState state;
  state.trace_ = trace;
  const std::vector<int32_t> threads = trace->threads();
  if (thread == 0 && !threads.empty()) thread = threads.front();
  if (std::find(threads.begin(), threads.end(), thread) == threads.end() ||
      trace->segments(thread).empty()) {
    return absl::NotFoundError(
        absl::StrCat(trace->directory(), ": no segment of thread ", thread, " in the trace"));
  }
  state.thread_ = thread;
  const std::vector<SegmentInfo>& segments = trace->segments(thread);
  state.begin_count_ = segments.front().first_count;
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> last,
                   trace->LoadSegment(thread, segments.back().number));
  state.end_count_ = last->end_count();
  state.AddKeyframes();
  state.AddEvents();
  if (trace->manifest().state == TraceState::kComplete && trace->manifest().exit_status >= 0 &&
      !state.exit_status_.has_value()) {
    state.exit_status_ = ExitStatus{trace->manifest().exit_status};
  }
  return state;
}

void ProcessState::AddKeyframes() {
  for (const auto& keyframe : trace_->full_keyframes()) {
    for (const FullKeyframe::ThreadState& state : keyframe->threads()) {
      if (state.thread != thread_ || state.count > end_count_) continue;
      snapshots_.push_back({keyframe->number(), keyframe->sequence(), state.count, state.segment,
                            keyframe->page_count()});
      keyframes_.push_back(keyframe.get());
      if (!keyframe->maps().empty()) maps_.push_back({state.count, &keyframe->maps()});
    }
  }
}

void ProcessState::AddEvents() {
  for (const ProcessEvent& event : trace_->events()) {
    if (event.kind == EventKind::kProcessExit) {
      exit_status_ = ExitStatus{static_cast<int32_t>(event.number)};
    }
    // Events and segments are flushed separately: an interrupted trace may hold events behind the
    // last state that can be replayed. One state further is kept: the system call or signal that
    // ended the thread leads to a state that never was.
    if ((event.thread != 0 && event.thread != thread_) || event.count > end_count_ + 1) continue;
    events_.push_back(&event);
    if (event.kind == EventKind::kSignal && event.count > begin_count_) signals_.push_back(&event);
    if (event.kind == EventKind::kSyscall && event.count > begin_count_) {
      syscalls_.push_back(&event);
    }
    if (event.kind == EventKind::kExec && event.count > begin_count_) execs_.push_back(&event);
    if (event.kind == EventKind::kMapChange) maps_.push_back({event.count, &event.maps});
    if (event.sequence != 0 && event.count <= end_count_ && LeadsToState(event.kind)) {
      points_.push_back({event.sequence, event.count});
    }
  }
  auto by_count = [](const auto* a, const auto* b) { return a->count < b->count; };
  std::stable_sort(events_.begin(), events_.end(), by_count);
  std::stable_sort(signals_.begin(), signals_.end(), by_count);
  std::stable_sort(syscalls_.begin(), syscalls_.end(), by_count);
  std::stable_sort(execs_.begin(), execs_.end(), by_count);
  std::stable_sort(maps_.begin(), maps_.end(),
                   [](const MapChange& a, const MapChange& b) { return a.count < b.count; });
  std::stable_sort(
      points_.begin(), points_.end(),
      [](const SequencePoint& a, const SequencePoint& b) { return a.sequence < b.sequence; });
  // A sequence number names one event, and later events have later states; what breaks this in a
  // damaged trace would make positions ambiguous.
  auto bad = [](const SequencePoint& a, const SequencePoint& b) {
    return b.sequence == a.sequence || b.count <= a.count;
  };
  points_.erase(std::unique(points_.begin(), points_.end(), bad), points_.end());
}

uint64_t ProcessState::SegmentAt(uint64_t count) const {
  const std::vector<SegmentInfo>& segments = trace_->segments(thread_);
  auto it = std::partition_point(segments.begin(), segments.end(), [&](const SegmentInfo& segment) {
    return segment.first_count <= count;
  });
  CHECK(it != segments.begin());
  return std::prev(it)->number;
}

Position ProcessState::PositionAt(uint64_t count) const {
  auto it = std::partition_point(points_.begin(), points_.end(),
                                 [&](const SequencePoint& point) { return point.count <= count; });
  if (it == points_.begin()) return {0, count - begin_count_};
  return {std::prev(it)->sequence, count - std::prev(it)->count};
}

absl::StatusOr<uint64_t> ProcessState::CountAt(const Position& position) const {
  auto none = [&] {
    return absl::OutOfRangeError(absl::StrCat(
        "no position ", ToString(position), " in the recording (",
        ToString(PositionAt(begin_count_)), " to ", ToString(PositionAt(end_count_)), ")"));
  };
  auto it = std::partition_point(points_.begin(), points_.end(), [&](const SequencePoint& point) {
    return point.sequence < position.sequence;
  });
  uint64_t base = begin_count_;
  if (position.sequence != 0) {
    if (it == points_.end() || it->sequence != position.sequence) return none();
    base = it->count;
    ++it;
  }
  // The next event's state belongs to the next event.
  const uint64_t last = it == points_.end() ? end_count_ : it->count - 1;
  if (position.steps > last - base) return none();
  return base + position.steps;
}

uint64_t ProcessState::CountAtPercent(double percent) const {
  percent = std::clamp(percent, 0.0, 100.0);
  const uint64_t length = end_count_ - begin_count_;
  const auto steps = static_cast<uint64_t>(static_cast<double>(length) * (percent / 100));
  return begin_count_ + std::min(steps, length);
}

double ProcessState::PercentAt(uint64_t count) const {
  if (end_count_ == begin_count_) return 100;
  return 100.0 * static_cast<double>(count - begin_count_) /
         static_cast<double>(end_count_ - begin_count_);
}

const std::vector<MapRegion>& ProcessState::MapsAt(uint64_t count) const {
  auto it = std::partition_point(maps_.begin(), maps_.end(),
                                 [&](const MapChange& change) { return change.count <= count; });
  return it == maps_.begin() ? NoMaps() : *std::prev(it)->maps;
}

const MapRegion* ProcessState::RegionAt(uint64_t count, uint64_t address) const {
  for (const MapRegion& region : MapsAt(count)) {
    const uint64_t growth =
        region.name == "[stack]" ? std::min(kStackGrowthBytes, region.start) : 0;
    if (address >= region.start - growth && address < region.end) return &region;
  }
  return nullptr;
}

const ProcessEvent* ProcessState::SignalFrom(uint64_t count) const {
  return EventFrom(signals_, count);
}
const ProcessEvent* ProcessState::SyscallFrom(uint64_t count) const {
  return EventFrom(syscalls_, count);
}
const ProcessEvent* ProcessState::NextSignal(uint64_t count) const {
  return EventAtOrAfter(signals_, count);
}
const ProcessEvent* ProcessState::PreviousSignal(uint64_t count) const {
  return EventBefore(signals_, count);
}
const ProcessEvent* ProcessState::NextSyscall(uint64_t count) const {
  return EventAtOrAfter(syscalls_, count);
}
const ProcessEvent* ProcessState::PreviousSyscall(uint64_t count) const {
  return EventBefore(syscalls_, count);
}

const ProcessEvent* ProcessState::LastExec(uint64_t count) const {
  return EventBefore(execs_, count);
}
const ProcessEvent* ProcessState::NextExec(uint64_t count) const {
  return EventAtOrAfter(execs_, count);
}

const ProcessEvent* ProcessState::LastSignal(uint64_t count) const {
  return EventBefore(signals_, count + 1);
}

const FullKeyframe* ProcessState::KeyframeAt(uint64_t count) const {
  for (size_t i = snapshots_.size(); i-- > 0;) {
    if (snapshots_[i].count <= count) return keyframes_[i];
  }
  return nullptr;
}

}  // namespace hindsight
