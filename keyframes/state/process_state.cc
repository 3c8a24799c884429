#include "keyframes/state/process_state.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "keyframes/state/first_after.h"

namespace hindsight {
namespace {

// Linux lets a stack grow to RLIMIT_STACK; the map in the trace shows how far it had grown.
constexpr uint64_t kStackGrowthBytes = uint64_t{8} << 20;
// Of more threads than this the last segments are not all loaded only to learn where they end, if
// their exits are recorded.
constexpr size_t kManyThreads = 64;

// Events of one thread and of the whole process, thread by thread.
using Buckets = absl::flat_hash_map<int32_t, std::vector<const ProcessEvent*>>;

Buckets BucketEvents(const std::vector<ProcessEvent>& events) {
  Buckets buckets;
  for (const ProcessEvent& event : events) buckets[event.thread].push_back(&event);
  return buckets;
}

// The thread the process began with.
int32_t FirstThread(const TraceReader& trace, const std::vector<int32_t>& threads) {
  const int32_t pid = trace.manifest().pid;
  return std::find(threads.begin(), threads.end(), pid) != threads.end() ? pid : threads.front();
}

}  // namespace

absl::StatusOr<ProcessState> ProcessState::Create(const TraceReader* trace) {
  ProcessState state;
  state.trace_ = trace;
  RETURN_IF_ERROR(state.AddThreads());
  state.AddLives();
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

absl::Status ProcessState::AddThreads() {
  const std::vector<int32_t> threads = trace_->threads();
  if (threads.empty()) {
    return absl::NotFoundError(absl::StrCat(trace_->directory(), ": the trace has no segments"));
  }
  const int32_t first = FirstThread(*trace_, threads);
  const Buckets buckets = BucketEvents(trace_->events());
  const auto of_process = buckets.find(0);
  const auto order = std::make_shared<OrderIndex>(trace_);
  const bool trust_exit =
      threads.size() > kManyThreads && trace_->manifest().state == TraceState::kComplete;
  std::vector<Schedule::ThreadRange> ranges;
  for (int32_t thread : threads) {
    std::vector<const ProcessEvent*> events;
    // Whose they are is not said: they are listed with the first.
    if (thread == first && of_process != buckets.end()) events = of_process->second;
    if (auto own = buckets.find(thread); own != buckets.end()) {
      events.insert(events.end(), own->second.begin(), own->second.end());
    }
    auto state = ThreadState::Create(trace_, thread, events, order, trust_exit);
    if (!state.ok()) {
      // One thread that cannot be shown does not hide the others.
      if (thread == first) return state.status();
      warnings_.push_back(std::string(state.status().message()));
      continue;
    }
    const uint64_t sequence = state->start_sequence() != 0
                                  ? state->start_sequence()
                                  : trace_->segments(thread).front().first_sequence;
    ranges.push_back({thread, state->begin_count(), state->end_count(), sequence});
    threads_.emplace(thread, std::make_unique<ThreadState>(*std::move(state)));
  }
  std::stable_sort(ranges.begin(), ranges.end(), [first](const auto& a, const auto& b) {
    if ((a.thread == first) != (b.thread == first)) return a.thread == first;
    return a.first_sequence < b.first_sequence;
  });
  for (const Schedule::ThreadRange& range : ranges) order_.push_back(range.thread);
  std::vector<const ProcessEvent*> slices;
  for (const ProcessEvent& event : trace_->events()) {
    if (event.kind == EventKind::kSlice) slices.push_back(&event);
  }
  schedule_ = Schedule::Create(ranges, slices, &warnings_);
  return absl::OkStatus();
}

const ThreadState& ProcessState::thread(int32_t thread) const {
  auto it = threads_.find(thread);
  CHECK(it != threads_.end());
  return *it->second;
}

void ProcessState::AddLives() {
  for (int32_t thread : order_) {
    const ThreadState& state = *threads_.at(thread);
    const uint64_t end =
        state.exits() ? schedule_.MomentTo(thread, state.end_count()) : end_moment();
    lives_[thread] = {StartMoment(state), end};
  }
}

// A thread lives from the moment after the system call that made it.
uint64_t ProcessState::StartMoment(const ThreadState& state) const {
  if (state.thread() == first_thread()) return 0;
  const uint64_t first_run = schedule_.slices()[schedule_.slices_of(state.thread()).front()].moment;
  if (state.start_sequence() == 0) return first_run;
  const size_t index = schedule_.SliceOfSequence(state.start_sequence());
  if (index == schedule_.slices().size()) return 0;
  const Slice& slice = schedule_.slices()[index];
  if (state.creator() == 0 || !threads_.contains(state.creator())) {
    return std::min(slice.moment, first_run);
  }
  const ThreadState& creator = *threads_.at(state.creator());
  const uint64_t made = creator.CountOfBirth(state.thread(), state.start_sequence());
  return std::min(schedule_.MomentTo(creator.thread(), made), first_run);
}

uint64_t ProcessState::StartOf(int32_t thread) const { return lives_.at(thread).start; }
uint64_t ProcessState::EndOf(int32_t thread) const { return lives_.at(thread).end; }

bool ProcessState::IsAlive(int32_t thread, uint64_t moment) const {
  auto it = lives_.find(thread);
  return it != lives_.end() && it->second.start <= moment && moment <= it->second.end;
}

std::vector<int32_t> ProcessState::ThreadsAt(uint64_t moment) const {
  std::vector<int32_t> alive;
  for (int32_t thread : order_) {
    if (IsAlive(thread, moment)) alive.push_back(thread);
  }
  if (alive.empty()) alive.push_back(schedule_.ThreadAt(moment));
  return alive;
}

std::string ProcessState::NameAt(int32_t thread, uint64_t moment) const {
  return this->thread(thread).NameAt(schedule_.CountAt(thread, moment));
}

void ProcessState::AddKeyframes(MapSources* maps) {
  for (const auto& keyframe : trace_->full_keyframes()) {
    std::optional<uint64_t> moment;
    for (const FullKeyframe::ThreadState& state : keyframe->threads()) {
      auto it = threads_.find(state.thread);
      if (it == threads_.end() || state.count > it->second->end_count()) continue;
      const uint64_t reached = state.count <= it->second->begin_count()
                                   ? StartOf(state.thread)
                                   : schedule_.MomentTo(state.thread, state.count);
      moment = std::max(moment.value_or(0), reached);
    }
    if (!moment.has_value()) continue;
    // Where a turn begins with it, and the thread that ran before has ended, none of its threads
    // shows that they had waited meanwhile.
    if (const size_t turn = schedule_.SliceOfSequence(keyframe->sequence());
        turn < schedule_.slices().size()) {
      moment = std::max(*moment, schedule_.slices()[turn].moment);
    }
    if (!snapshots_.empty()) moment = std::max(*moment, snapshots_.back().moment);
    snapshots_.push_back(
        {keyframe->number(), keyframe->sequence(), *moment, keyframe->page_count()});
    keyframes_.push_back(keyframe.get());
    maps->AddKeyframe(keyframe.get(), *moment);
  }
}

void ProcessState::AddEvents(MapSources* maps) {
  uint64_t latest = 0;  // where events that name no thread are put
  // Changes of the map in states that are missing: the map has them from the next event on.
  std::vector<const ProcessEvent*> missing;
  for (const ProcessEvent& event : trace_->events()) {
    const int32_t thread = event.thread != 0 ? event.thread : first_thread();
    auto it = threads_.find(thread);
    if (it == threads_.end() || event.count > it->second->end_count() + 1) {
      missing.push_back(&event);
      continue;
    }
    const ThreadState& state = *it->second;
    uint64_t moment = schedule_.MomentTo(thread, std::min(event.count, state.end_count()));
    if (event.count > state.end_count()) ++moment;
    if (event.thread == 0 && order_.size() > 1) moment = latest;
    if (event.kind == EventKind::kThreadStart) moment = StartOf(thread);
    // Threads that the end of the process, or an exec, took along had stood still before: they
    // end after what others did until then.
    Life& life = lives_.at(thread);
    if (event.kind == EventKind::kThreadExit) life.end = std::max(life.end, latest);
    // Likewise the gap in which all of them run on alone.
    if (event.kind == EventKind::kGap) moment = std::max(moment, latest);
    latest = std::max(latest, moment);
    for (const ProcessEvent* change : missing) maps->AddEvent(change, latest);
    missing.clear();
    AddEvent(event, moment, maps);
  }
  events_.Sort();
  std::stable_sort(gaps_.begin(), gaps_.end(),
                   [](const TimelineGap& a, const TimelineGap& b) { return a.moment < b.moment; });
}

void ProcessState::AddEvent(const ProcessEvent& event, uint64_t moment, MapSources* maps) {
  if (event.kind == EventKind::kProcessExit) {
    exit_status_ = ExitStatus{static_cast<int32_t>(event.number)};
  }
  if (event.kind == EventKind::kFullKeyframe) {
    const auto number = static_cast<uint64_t>(event.number);
    const auto snapshot =
        std::partition_point(snapshots_.begin(), snapshots_.end(),
                             [number](const Snapshot& one) { return one.number < number; });
    if (snapshot != snapshots_.end() && snapshot->number == number) {
      maps->PassKeyframe(snapshot->moment);
    }
  }
  maps->AddEvent(&event, moment);
  if (event.kind == EventKind::kGap) gaps_.push_back({moment, event.text});
  if (event.kind == EventKind::kSlice) return;
  const int32_t thread = event.thread != 0 ? event.thread : first_thread();
  events_.Add(&event, moment, /*moves=*/event.count > this->thread(thread).begin_count());
}

Position ProcessState::PositionAt(int32_t thread, uint64_t moment) const {
  const size_t next = schedule_.NextSliceOf(thread, moment);
  const uint64_t limit =
      next < schedule_.slices().size() ? schedule_.slices()[next].sequence : ~uint64_t{0};
  return this->thread(thread).PositionAt(schedule_.CountAt(thread, moment), limit);
}

Position ProcessState::PositionAt(uint64_t moment) const {
  return PositionAt(schedule_.ThreadAt(moment), moment);
}

int32_t ProcessState::ThreadOfSequence(uint64_t sequence) const {
  for (const ProcessEvent& event : trace_->events()) {
    if (event.sequence == sequence && threads_.contains(event.thread)) return event.thread;
  }
  const size_t index = schedule_.SliceOfSequence(sequence);
  return index < schedule_.slices().size() ? schedule_.slices()[index].thread : 0;
}

absl::StatusOr<uint64_t> ProcessState::MomentAt(const Position& position) const {
  const int32_t thread =
      position.sequence == 0 ? first_thread() : ThreadOfSequence(position.sequence);
  if (thread != 0) {
    absl::StatusOr<uint64_t> moment = MomentIn(thread, position);
    if (moment.ok()) return moment;
  }
  return absl::OutOfRangeError(absl::StrCat("no position ", ToString(position),
                                            " in the recording (", ToString(PositionAt(0)), " to ",
                                            ToString(PositionAt(end_moment())), ")"));
}

absl::StatusOr<uint64_t> ProcessState::MomentIn(int32_t thread, const Position& position) const {
  const ThreadState& state = this->thread(thread);
  ASSIGN_OR_RETURN(uint64_t count, state.CountAt(position));
  if (position.steps == 0 && position.sequence != 0) {
    if (position.sequence == state.start_sequence()) return StartOf(thread);
    const size_t index = schedule_.SliceOfSequence(position.sequence);
    if (index < schedule_.slices().size()) {
      const Slice& slice = schedule_.slices()[index];
      if (slice.sequence == position.sequence && slice.thread == thread) return slice.moment;
    }
  }
  return schedule_.MomentTo(thread, count);
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

std::vector<MapRegion> ProcessState::MapsAt(uint64_t moment) const {
  const std::shared_ptr<const RegionList> regions = RegionsAt(moment);
  std::vector<MapRegion> maps;
  maps.reserve(regions->size());
  for (const MapRegion* region : *regions) maps.push_back(*region);
  return maps;
}

bool ProcessState::HasMapAt(uint64_t moment) const { return !maps_.IsEmptyAt(moment); }

bool ProcessState::SameMapAt(uint64_t one, uint64_t other) const {
  return maps_.VersionAt(one) == maps_.VersionAt(other);
}

const MapRegion* ProcessState::RegionAt(uint64_t moment, uint64_t address) const {
  if (const MapRegion* region = maps_.Find(moment, address)) return region;
  const MapRegion* const stack = maps_.StackAt(moment);
  if (stack == nullptr) return nullptr;
  const uint64_t growth = std::min(kStackGrowthBytes, stack->start);
  return address >= stack->start - growth && address < stack->end ? stack : nullptr;
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
