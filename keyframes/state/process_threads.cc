#include "keyframes/state/process_threads.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "keyframes/state/order_index.h"

namespace hindsight {
namespace {

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

absl::StatusOr<ProcessThreads> ProcessThreads::Create(const TraceReader* trace,
                                                      std::vector<std::string>* warnings) {
  ProcessThreads threads;
  RETURN_IF_ERROR(threads.AddThreads(trace, warnings));
  threads.AddLives(trace);
  return threads;
}

absl::Status ProcessThreads::AddThreads(const TraceReader* trace,
                                        std::vector<std::string>* warnings) {
  const std::vector<int32_t> threads = trace->threads();
  if (threads.empty()) {
    return absl::NotFoundError(absl::StrCat(trace->directory(), ": the trace has no segments"));
  }
  const int32_t first = FirstThread(*trace, threads);
  const Buckets buckets = BucketEvents(trace->events());
  const auto of_process = buckets.find(0);
  const auto order = std::make_shared<OrderIndex>(trace);
  const bool trust_exit =
      threads.size() > kManyThreads && trace->manifest().state == TraceState::kComplete;
  std::vector<Schedule::ThreadRange> ranges;
  for (int32_t thread : threads) {
    std::vector<const ProcessEvent*> events;
    // Whose they are is not said: they are listed with the first.
    if (thread == first && of_process != buckets.end()) events = of_process->second;
    if (auto own = buckets.find(thread); own != buckets.end()) {
      events.insert(events.end(), own->second.begin(), own->second.end());
    }
    auto state = ThreadState::Create(trace, thread, events, order, trust_exit);
    if (!state.ok()) {
      // One thread that cannot be shown does not hide the others.
      if (thread == first) return state.status();
      warnings->push_back(std::string(state.status().message()));
      continue;
    }
    const uint64_t sequence = state->start_sequence() != 0
                                  ? state->start_sequence()
                                  : trace->segments(thread).front().first_sequence;
    ranges.push_back({thread, state->begin_count(), state->end_count(), sequence});
    threads_.emplace(thread, std::make_unique<ThreadState>(*std::move(state)));
  }
  FindLateThreads(trace);
  for (Schedule::ThreadRange& range : ranges) range.begins_late = BeginsLate(range.thread);
  std::stable_sort(ranges.begin(), ranges.end(), [first](const auto& a, const auto& b) {
    if ((a.thread == first) != (b.thread == first)) return a.thread == first;
    return a.first_sequence < b.first_sequence;
  });
  for (const Schedule::ThreadRange& range : ranges) order_.push_back(range.thread);
  std::vector<const ProcessEvent*> slices;
  for (const ProcessEvent& event : trace->events()) {
    if (event.kind != EventKind::kSlice) continue;
    // Of threads that are lost as a whole these are left.
    const bool may_be_lost = trace->trimmed() != nullptr && trace->trimmed()->thinned();
    if (Has(event.thread) || !may_be_lost) slices.push_back(&event);
  }
  schedule_ = Schedule::Create(ranges, slices, warnings);
  return absl::OkStatus();
}

const ThreadState& ProcessThreads::Of(int32_t thread) const {
  auto it = threads_.find(thread);
  CHECK(it != threads_.end());
  return *it->second;
}

// A recording begins with its first full keyframe, or with a later one if older parts of it were
// dropped: the threads that have their first states there.
absl::flat_hash_set<int32_t> ProcessThreads::ThreadsAtBeginning(const TraceReader* trace) const {
  absl::flat_hash_set<int32_t> threads;
  if (trace->full_keyframes().empty()) return threads;
  for (const FullKeyframe::ThreadState& state : trace->full_keyframes().front()->threads()) {
    const auto thread = threads_.find(state.thread);
    if (thread != threads_.end() && thread->second->begin_count() == state.count) {
      threads.insert(state.thread);
    }
  }
  return threads;
}

// Of a thread that stood still up to where its part begins nothing is lost.
void ProcessThreads::FindLateThreads(const TraceReader* trace) {
  if (trace->trimmed() == nullptr || !trace->trimmed()->thinned()) return;
  const absl::flat_hash_set<int32_t> from_beginning = ThreadsAtBeginning(trace);
  for (const auto& [thread, state] : threads_) {
    const bool at_birth = trace->segments(thread).front().number == 0;
    if (!at_birth && !from_beginning.contains(thread)) late_.insert(thread);
  }
}

bool ProcessThreads::IsLost(int32_t thread, uint64_t count) const {
  return BeginsLate(thread) && count <= Of(thread).begin_count();
}

void ProcessThreads::AddLives(const TraceReader* trace) {
  const absl::flat_hash_set<int32_t> from_beginning = ThreadsAtBeginning(trace);
  for (int32_t thread : order_) {
    const ThreadState& state = *threads_.at(thread);
    const uint64_t end =
        state.exits() ? schedule_.MomentTo(thread, state.end_count()) : schedule_.end_moment();
    const bool at_beginning = from_beginning.contains(thread) || BeginsLate(thread);
    lives_[thread] = {at_beginning ? 0 : StartMoment(state), end};
  }
  for (const int32_t thread : late_) lives_[thread].start = LateStartMoment(trace, thread);
  EndBeforeKeyframes(trace);
}

// Where a full keyframe was made right after the end of a thread, without a transition in between,
// the thread is not there any more.
void ProcessThreads::EndBeforeKeyframes(const TraceReader* trace) {
  for (const auto& keyframe : trace->full_keyframes()) {
    const std::optional<uint64_t> moment = MomentOf(*keyframe);
    if (!moment.has_value()) continue;
    absl::flat_hash_set<int32_t> alive;
    for (const FullKeyframe::ThreadState& state : keyframe->threads()) alive.insert(state.thread);
    for (auto& [thread, life] : lives_) {
      const bool ends = life.end == *moment && life.start < *moment && Of(thread).exits();
      if (ends && !alive.contains(thread)) --life.end;
    }
  }
}

uint64_t ProcessThreads::LateStartMoment(const TraceReader* trace, int32_t thread) const {
  const uint64_t segment = trace->segments(thread).front().number;
  for (const auto& keyframe : trace->full_keyframes()) {
    for (const FullKeyframe::ThreadState& state : keyframe->threads()) {
      if (state.thread == thread && state.segment == segment) {
        return MomentOf(*keyframe).value_or(0);
      }
    }
  }
  return schedule_.MomentTo(thread, Of(thread).begin_count());
}

std::optional<uint64_t> ProcessThreads::MomentOf(const FullKeyframe& keyframe) const {
  std::optional<uint64_t> moment;
  for (const FullKeyframe::ThreadState& state : keyframe.threads()) {
    if (!Has(state.thread)) continue;
    const ThreadState& thread = Of(state.thread);
    const bool late = BeginsLate(state.thread);
    if (state.count > thread.end_count() || (late && state.count < thread.begin_count())) continue;
    const uint64_t reached = state.count <= thread.begin_count() && !late
                                 ? StartOf(state.thread)
                                 : schedule_.MomentTo(state.thread, state.count);
    moment = std::max(moment.value_or(0), reached);
  }
  // Where a turn begins with it, and the thread that ran before has ended, none of its threads
  // shows that they had waited meanwhile.
  if (const size_t turn = schedule_.SliceOfSequence(keyframe.sequence());
      moment.has_value() && turn < schedule_.slices().size()) {
    moment = std::max(*moment, schedule_.slices()[turn].moment);
  }
  return moment;
}

// A thread lives from the moment after the system call that made it.
uint64_t ProcessThreads::StartMoment(const ThreadState& state) const {
  if (state.thread() == first()) return 0;
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
  if (IsLost(creator.thread(), made)) return std::min(slice.moment, first_run);
  return std::min(schedule_.MomentTo(creator.thread(), made), first_run);
}

uint64_t ProcessThreads::StartOf(int32_t thread) const { return lives_.at(thread).start; }
uint64_t ProcessThreads::EndOf(int32_t thread) const { return lives_.at(thread).end; }

bool ProcessThreads::IsAlive(int32_t thread, uint64_t moment) const {
  auto it = lives_.find(thread);
  return it != lives_.end() && it->second.start <= moment && moment <= it->second.end;
}

std::vector<int32_t> ProcessThreads::AliveAt(uint64_t moment) const {
  std::vector<int32_t> alive;
  for (int32_t thread : order_) {
    if (IsAlive(thread, moment)) alive.push_back(thread);
  }
  if (alive.empty()) alive.push_back(schedule_.ThreadAt(moment));
  return alive;
}

std::string ProcessThreads::NameAt(int32_t thread, uint64_t moment) const {
  return Of(thread).NameAt(schedule_.CountAt(thread, moment));
}

void ProcessThreads::ExtendLife(int32_t thread, uint64_t moment) {
  uint64_t& end = lives_.at(thread).end;
  end = std::max(end, moment);
}

}  // namespace hindsight
