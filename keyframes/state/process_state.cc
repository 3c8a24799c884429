#include "keyframes/state/process_state.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "keyframes/state/first_after.h"

namespace hindsight {

absl::StatusOr<ProcessState> ProcessState::Create(const TraceReader* trace) {
  std::vector<std::string> warnings;
  ASSIGN_OR_RETURN(ProcessThreads threads, ProcessThreads::Create(trace, &warnings));
  ProcessState state(trace, std::move(threads), std::move(warnings));
  MapSources maps;
  state.AddKeyframes(&maps);
  state.AddEvents(&maps);
  state.maps_ = maps.Build();
  const Manifest& manifest = trace->manifest();
  if (manifest.state == TraceState::kComplete && manifest.exit_status >= 0 &&
      !state.exit_status_.has_value()) {
    state.exit_status_ = ExitStatus{manifest.exit_status};
  }
  return state;
}

void ProcessState::AddKeyframes(MapSources* maps) {
  const TrimmedEvent* const trimmed = trace_->trimmed();
  const bool thinned = trimmed != nullptr && trimmed->thinned();
  for (const auto& keyframe : trace_->full_keyframes()) {
    std::optional<uint64_t> moment = threads_.MomentOf(*keyframe);
    // All its threads may be missing there; the memory map is not.
    if (!moment.has_value() && thinned && keyframe->number() < trimmed->whole_keyframe) {
      moment = MomentOfSlice(keyframe->sequence());
    }
    if (!moment.has_value()) continue;
    if (!snapshots_.empty()) moment = std::max(*moment, snapshots_.back().moment);
    snapshots_.push_back(
        {keyframe->number(), keyframe->sequence(), *moment, keyframe->page_count()});
    keyframes_.push_back(keyframe.get());
    maps->AddKeyframe(keyframe.get(), *moment);
  }
  if (!thinned) return;
  const Snapshot* const whole = FindKeyframe(trimmed->whole_keyframe);
  whole_moment_ = whole != nullptr ? whole->moment : end_moment() + 1;
}

void ProcessState::AddEvents(MapSources* maps) {
  uint64_t latest = 0;  // where events that name no thread are put
  // Changes of the map in states that are missing: the map has them from the next event on.
  std::vector<const ProcessEvent*> missing;
  bool carried = trace_->trimmed() != nullptr;  // from before the trace begins
  for (const ProcessEvent& event : trace_->events()) {
    if (event.kind == EventKind::kSnapshot) AddWantedSnapshot(event);
    const int32_t thread = ThreadOf(event);
    const bool elsewhere = event.thread != 0 && event.thread != thread;
    if (!threads_.Has(thread) ||
        (!elsewhere && event.count > threads_.Of(thread).end_count() + 1)) {
      missing.push_back(&event);
      continue;
    }
    if (carried && event.kind == EventKind::kThreadStart) continue;  // it had begun before
    const ThreadState& state = threads_.Of(thread);
    uint64_t moment = schedule().MomentTo(thread, std::min(event.count, state.end_count()));
    if (event.count > state.end_count()) ++moment;
    if (elsewhere || (event.thread == 0 && threads_.all().size() > 1)) moment = latest;
    if (event.kind == EventKind::kThreadStart) moment = threads_.StartOf(thread);
    if (!elsewhere && event.thread != 0 && threads_.IsLost(thread, event.count)) {
      moment = std::max(latest, MomentOfLost(event));
    }
    // Threads that the end of the process, or an exec, took along had stood still before: they
    // end after what others did until then.
    if (event.kind == EventKind::kThreadExit) threads_.ExtendLife(thread, latest);
    // Likewise the gap in which all of them run on alone.
    if (event.kind == EventKind::kGap) moment = std::max(moment, latest);
    latest = std::max(latest, moment);
    if (event.kind == EventKind::kFullKeyframe) carried = false;
    for (const ProcessEvent* change : missing) maps->AddEvent(change, latest);
    missing.clear();
    AddEvent(event, moment, maps);
  }
  events_.Sort();
  std::stable_sort(gaps_.begin(), gaps_.end(),
                   [](const TimelineGap& a, const TimelineGap& b) { return a.moment < b.moment; });
}

// Where the thread's slice lies of which only the place is left.
uint64_t ProcessState::MomentOfLost(const ProcessEvent& event) const {
  if (event.kind == EventKind::kFullKeyframe) {
    const Snapshot* const keyframe = FindKeyframe(static_cast<uint64_t>(event.number));
    return keyframe == nullptr ? 0 : keyframe->moment;
  }
  return event.sequence == 0 ? 0 : MomentOfSlice(event.sequence);
}

uint64_t ProcessState::MomentOfSlice(uint64_t sequence) const {
  const size_t slice = schedule().SliceOfSequence(sequence);
  return slice < schedule().slices().size() ? schedule().slices()[slice].moment : 0;
}

const Snapshot* ProcessState::FindKeyframe(uint64_t number) const {
  const auto found =
      std::partition_point(snapshots_.begin(), snapshots_.end(),
                           [number](const Snapshot& one) { return one.number < number; });
  return found != snapshots_.end() && found->number == number ? &*found : nullptr;
}

// One whose keyframe is damaged has a number all the same.
void ProcessState::AddWantedSnapshot(const ProcessEvent& event) {
  ++wanted_count_;
  const Snapshot* const keyframe = FindKeyframe(static_cast<uint64_t>(event.number));
  if (keyframe == nullptr) return;
  wanted_.push_back(*keyframe);
  wanted_.back().number = wanted_count_;
  wanted_.back().event = &event;
}

void ProcessState::AddEvent(const ProcessEvent& event, uint64_t moment, MapSources* maps) {
  if (event.kind == EventKind::kProcessExit) {
    exit_status_ = ExitStatus{static_cast<int32_t>(event.number)};
  }
  if (event.kind == EventKind::kFullKeyframe) {
    const Snapshot* const keyframe = FindKeyframe(static_cast<uint64_t>(event.number));
    if (keyframe != nullptr) maps->PassKeyframe(keyframe->moment);
  }
  maps->AddEvent(&event, moment);
  if (event.kind == EventKind::kGap) gaps_.push_back({moment, event.text});
  if (event.kind == EventKind::kSlice) return;
  events_.Add(&event, moment, /*moves=*/event.count > threads_.Of(ThreadOf(event)).begin_count());
}

// What concerns the process is logged with its first thread, which may have ended before the
// trace begins.
int32_t ProcessState::ThreadOf(const ProcessEvent& event) const {
  const bool of_process =
      event.kind == EventKind::kProcessExit || event.kind == EventKind::kFileChanged;
  if (event.thread == 0 || (of_process && !threads_.Has(event.thread))) return threads_.first();
  return event.thread;
}

Position ProcessState::PositionAt(int32_t thread, uint64_t moment) const {
  const size_t next = schedule().NextSliceOf(thread, moment);
  const uint64_t limit =
      next < schedule().slices().size() ? schedule().slices()[next].sequence : ~uint64_t{0};
  return threads_.Of(thread).PositionAt(schedule().CountAt(thread, moment), limit);
}

Position ProcessState::PositionAt(uint64_t moment) const {
  return PositionAt(schedule().ThreadAt(moment), moment);
}

int32_t ProcessState::ThreadOfSequence(uint64_t sequence) const {
  for (const ProcessEvent& event : trace_->events()) {
    if (event.sequence == sequence && threads_.Has(event.thread)) return event.thread;
  }
  const size_t index = schedule().SliceOfSequence(sequence);
  return index < schedule().slices().size() ? schedule().slices()[index].thread : 0;
}

absl::StatusOr<uint64_t> ProcessState::MomentAt(const Position& position) const {
  const int32_t thread =
      position.sequence == 0 ? threads_.first() : ThreadOfSequence(position.sequence);
  if (thread != 0) {
    absl::StatusOr<uint64_t> moment = MomentIn(thread, position);
    if (moment.ok()) return moment;
  }
  return absl::OutOfRangeError(absl::StrCat("no position ", ToString(position),
                                            " in the recording (", ToString(PositionAt(0)), " to ",
                                            ToString(PositionAt(end_moment())), ")"));
}

absl::StatusOr<uint64_t> ProcessState::MomentIn(int32_t thread, const Position& position) const {
  const ThreadState& state = threads_.Of(thread);
  ASSIGN_OR_RETURN(uint64_t count, state.CountAt(position));
  if (position.steps == 0 && position.sequence != 0) {
    if (position.sequence == state.start_sequence()) return threads_.StartOf(thread);
    const size_t index = schedule().SliceOfSequence(position.sequence);
    if (index < schedule().slices().size()) {
      const Slice& slice = schedule().slices()[index];
      if (slice.sequence == position.sequence && slice.thread == thread) return slice.moment;
    }
  }
  return schedule().MomentTo(thread, count);
}

uint64_t ProcessState::MomentAtPercent(double percent) const {
  percent = std::clamp(percent, 0.0, 100.0);
  const auto moment = static_cast<uint64_t>(static_cast<double>(end_moment()) * (percent / 100));
  return std::min(moment, end_moment());
}

double ProcessState::PercentAt(uint64_t moment) const {
  if (end_moment() == 0) return 100;
  return 100.0 * static_cast<double>(moment) / static_cast<double>(end_moment());
}

const ProcessEvent* ProcessState::LastExec(uint64_t moment) const {
  const TimelineEvent* exec = events_.LastExec(moment);
  return exec == nullptr ? nullptr : exec->event;
}

uint64_t ProcessState::LastExecMoment(uint64_t moment) const {
  const TimelineEvent* exec = events_.LastExec(moment);
  return exec == nullptr ? 0 : exec->moment;
}

const Snapshot* ProcessState::SnapshotAt(uint64_t moment) const {
  auto it = FirstAfter(snapshots_, moment);
  return it == snapshots_.begin() ? nullptr : &*std::prev(it);
}

const FullKeyframe* ProcessState::KeyframeAt(uint64_t moment) const {
  auto it = FirstAfter(snapshots_, moment);
  return it == snapshots_.begin() ? nullptr
                                  : keyframes_[static_cast<size_t>(it - snapshots_.begin()) - 1];
}

uint64_t ProcessState::LastGapBefore(uint64_t moment) const {
  // In the last state before it all is still known.
  auto it = moment == 0 ? gaps_.begin() : FirstAfter(gaps_, moment - 1);
  return it == gaps_.begin() ? 0 : std::prev(it)->moment;
}

}  // namespace hindsight
