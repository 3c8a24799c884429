// Running along the timeline, both ways.
//
// Where something is looked for in the code that threads execute, the timeline is taken in windows
// of moments that widen. In each window every thread that ran in it is searched on its own; of what
// they find the first (or, backward, the last) counts, and the others are searched only up to that.

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "base/status_macros.h"
#include "keyframes/timeline/timeline_impl.h"

namespace hindsight {
namespace {

// The first window: about 40 ms of replay. What lies near is found without replaying all threads
// far back; where nothing lies near, few windows reach far.
constexpr uint64_t kFirstWindow = 4'000'000;
constexpr uint64_t kWidening = 4;

// Of spans in which watched memory was not known.
constexpr size_t kMostUnknownTold = 4;

bool InRange(const RunRequest& request, uint64_t pc) {
  return pc >= request.range_start && pc < request.range_end;
}

}  // namespace

std::vector<int32_t> Timeline::Impl::ActiveThreads(const RunRequest& request, uint64_t low,
                                                   uint64_t high) const {
  std::vector<int32_t> threads;
  absl::flat_hash_set<int32_t> seen;
  for (size_t i = schedule().SliceAt(low); i < schedule().slices().size(); ++i) {
    const Slice& slice = schedule().slices()[i];
    if (slice.moment >= high) break;
    if (slice.length == 0 || slice.moment + slice.length <= low) continue;
    if (!Counts(request, slice.thread) || !seen.insert(slice.thread).second) continue;
    threads.push_back(slice.thread);
  }
  return threads;
}

absl::StatusOr<RunStop> Timeline::Impl::Run(const RunRequest& request) {
  const uint64_t start = moment_;
  run_thread_ = current();
  if (request.thread != 0) RETURN_IF_ERROR(CheckAlive(request.thread));
  if (const std::optional<RunStop> here = StopHere(request)) {
    told_ = {moment_, here->kind};
    return *here;
  }
  told_.reset();
  for (auto& [thread, timeline] : threads_) {
    timeline->SetStops(request);
    (void)timeline->TakeUnknownImports();
  }
  stops_ = &request;
  absl::StatusOr<RunStop> stop = RunTowards(request);
  stops_ = nullptr;
  pool_.ClearStops();
  for (auto& [thread, timeline] : threads_) timeline->SetStops({});
  if (stop.ok()) {
    told_ = {moment_, stop->kind};
    stop->unknown = UnknownOnTheWay(request, std::min(start, moment_), std::max(start, moment_));
  } else {
    moment_ = start;
  }
  return stop;
}

// Where between these moments changes of watched memory could not be seen. It is no reason to fail
// a run that this cannot be said.
std::vector<UnknownMemory> Timeline::Impl::UnknownOnTheWay(const RunRequest& request, uint64_t low,
                                                           uint64_t high) {
  std::vector<UnknownMemory> unknown = UnknownBeforeImports(request, low, high);
  const size_t most = unknown.size() + kMostUnknownTold;
  for (const WatchpointSpec& watched : request.watchpoints) {
    if (!watched.on_write()) continue;
    const auto spans = unknown_.Find(watched.address, watched.length, low, high);
    if (!spans.ok()) break;
    for (const UnknownSpan& span : *spans) {
      if (unknown.size() == most) break;
      // Other threads may know what this one did not.
      const uint64_t address = std::max(watched.address, span.page);
      uint8_t byte = 0;
      const auto known = memory_.Read(span.thread, std::max(span.from, low), address,
                                      absl::MakeSpan(&byte, 1), request.interrupt);
      if (!absl::IsNotFound(known.status())) continue;
      unknown.push_back(
          {address, span.thread, span.from, std::min(span.to, process_.end_moment())});
    }
  }
  std::stable_sort(unknown.begin(), unknown.end(),
                   [](const UnknownMemory& a, const UnknownMemory& b) { return a.from > b.from; });
  if (unknown.size() > kMostUnknownTold) unknown.resize(kMostUnknownTold);
  return unknown;
}

// Of watched memory that came in without having been known: there was nothing to compare with.
std::vector<UnknownMemory> Timeline::Impl::UnknownBeforeImports(const RunRequest& request,
                                                                uint64_t low, uint64_t high) {
  std::vector<UnknownMemory> unknown;
  for (const auto& [thread, timeline] : threads_) {
    for (const ThreadTimeline::UnknownImport& import : timeline->TakeUnknownImports()) {
      const uint64_t to = schedule().MomentFrom(thread, import.count);
      if (to <= low || to > high) continue;
      const uint64_t since = memory_.UnknownSince(to - 1, import.page);
      for (const WatchpointSpec& watched : request.watchpoints) {
        if (!watched.on_write() || watched.length == 0) continue;
        const uint64_t last = watched.address + (watched.length - 1);
        if (import.page > last || watched.address >= import.page + kPageBytes) continue;
        // Where it is not known since when: as far as was looked.
        unknown.push_back(
            {std::max(watched.address, import.page), thread, since < to - 1 ? since : low, to});
      }
    }
  }
  return unknown;
}

// Whether it is worth while to search states low..high of `thread`. Of many short threads most
// touch nothing of what is looked for, and replaying each of them costs more than what it executes.
bool Timeline::Impl::MayStop(const RunRequest& request, int32_t thread, uint64_t low,
                             uint64_t high) {
  const uint64_t number = process_.thread(thread).SegmentAt(low);
  // To look at the records of many segments would only come on top of searching them.
  if (process_.thread(thread).SegmentAt(high) != number || Raised(request)) return true;
  const auto touches = [&](uint64_t address, uint64_t length) {
    // What cannot be read the search tells of.
    return memory_.Touches(thread, number, address, length).value_or(true);
  };
  if (std::any_of(request.breakpoints.begin(), request.breakpoints.end(),
                  [&](const BreakpointSpec& stop) { return touches(stop.address, 1); })) {
    return true;
  }
  if (request.watchpoints.empty()) return false;
  // A full keyframe may tell of a change, too.
  return KeyframeAtStart(*trace_, thread, number) != nullptr ||
         std::any_of(
             request.watchpoints.begin(), request.watchpoints.end(),
             [&](const WatchpointSpec& stop) { return touches(stop.address, stop.length); });
}

absl::StatusOr<RunStop> Timeline::Impl::RunTowards(const RunRequest& request) {
  if (request.step) return StepRange(request);
  const bool forward = request.direction == Direction::kForward;
  ASSIGN_OR_RETURN(std::optional<RunStop> stop, forward
                                                    ? RunForwardTo(request, process_.end_moment())
                                                    : RunBackwardTo(request, 0));
  if (stop.has_value()) return *stop;
  return RunStop{.kind = forward ? StopKind::kEnd : StopKind::kBegin, .thread = current()};
}

absl::StatusOr<std::optional<RunStop>> Timeline::Impl::RunForwardTo(const RunRequest& request,
                                                                    uint64_t limit) {
  std::optional<EventStop> event = NextEventStop(request, moment_);
  if (event.has_value() && event->moment > limit) event.reset();
  if (event.has_value()) limit = event->moment;
  if (LooksForCode(request)) {
    ASSIGN_OR_RETURN(std::optional<RunStop> stop, SearchForward(request, limit));
    if (stop.has_value()) return stop;
  }
  absl::Status status = SeekTo(limit, request.interrupt);
  if (absl::IsCancelled(status)) {
    return RunStop{.kind = StopKind::kInterrupted, .thread = current()};
  }
  RETURN_IF_ERROR(status);
  if (event.has_value()) return event->stop;
  return std::nullopt;
}

absl::StatusOr<std::optional<RunStop>> Timeline::Impl::SearchForward(const RunRequest& request,
                                                                     uint64_t limit) {
  bool leave = request.leave_first_breakpoint;
  for (uint64_t width = kFirstWindow; moment_ < limit; width *= kWidening) {
    uint64_t high = limit;
    // One thread alone is as good as searched in order.
    if (limit - moment_ > width && ActiveThreads(request, moment_, limit).size() > 1) {
      high = moment_ + width;
    }
    ASSIGN_OR_RETURN(std::optional<RunStop> stop, SearchWindowForward(request, high, leave));
    if (stop.has_value()) return stop;
    moment_ = high;
    leave = false;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<RunStop>> Timeline::Impl::SearchWindowForward(
    const RunRequest& request, uint64_t high, bool leave) {
  const uint64_t low = moment_;
  const int32_t first = current();
  const std::vector<int32_t> threads = ActiveThreads(request, low, high);
  std::optional<ThreadStop> best;
  for (int32_t thread : threads) {
    const uint64_t from = schedule().CountAt(thread, low);
    const uint64_t to = schedule().CountAt(thread, high);
    if (from >= to || !MayStop(request, thread, from, to)) continue;
    ASSIGN_OR_RETURN(std::optional<ThreadStop> stop,
                     Of(thread).RunForward(request, from, to, leave && thread == first));
    if (!stop.has_value()) continue;
    if (stop->stop.kind == StopKind::kInterrupted) {
      if (threads.size() == 1) moment_ = schedule().MomentTo(thread, stop->count);
      return stop->stop;
    }
    const bool behind = stop->stop.kind == StopKind::kWatchpoint;
    // An access that was just made comes before what is made next.
    high = behind ? schedule().MomentTo(thread, stop->count)
                  : schedule().MomentFrom(thread, stop->count);
    best = std::move(stop);
  }
  if (!best.has_value()) return std::nullopt;
  moment_ = high;
  return best->stop;
}

absl::StatusOr<std::optional<RunStop>> Timeline::Impl::RunBackwardTo(const RunRequest& request,
                                                                     uint64_t floor) {
  if (moment_ <= floor) return std::nullopt;
  std::optional<EventStop> event = PreviousEventStop(request, moment_);
  if (event.has_value() && event->moment < floor) event.reset();
  if (event.has_value()) floor = event->moment;
  if (LooksForCode(request)) {
    ASSIGN_OR_RETURN(std::optional<RunStop> stop, SearchBackward(request, floor));
    if (stop.has_value()) return stop;
  }
  RETURN_IF_ERROR(SeekTo(floor, nullptr));
  if (event.has_value()) return event->stop;
  return std::nullopt;
}

absl::StatusOr<std::optional<RunStop>> Timeline::Impl::SearchBackward(const RunRequest& request,
                                                                      uint64_t floor) {
  // Down to which state each thread has been searched.
  absl::flat_hash_map<int32_t, uint64_t> searched;
  const uint64_t start = moment_;
  std::optional<FoundHit> best;
  uint64_t low = start;
  for (uint64_t width = kFirstWindow; low > floor; width *= kWidening) {
    uint64_t next = floor;
    if (low - floor > width && ActiveThreads(request, floor, low).size() > 1) next = low - width;
    if (best.has_value()) next = std::max(next, best->moment);
    const bool alone = next == floor && ActiveThreads(request, floor, start).size() <= 1;
    const absl::Status status = SearchWindowBackward(request, floor, next, &searched, &best);
    if (absl::IsCancelled(status)) {
      if (alone && searched.size() == 1) {
        const auto& [thread, count] = *searched.begin();
        low = std::min(low, schedule().MomentTo(thread, count));
      }
      RETURN_IF_ERROR(SeekTo(low, nullptr));
      return RunStop{.kind = StopKind::kInterrupted, .thread = current()};
    }
    RETURN_IF_ERROR(status);
    low = next;
    if (best.has_value() && best->moment >= low) break;
  }
  if (!best.has_value() || best->moment < floor) return std::nullopt;
  ThreadTimeline& timeline = Of(best->thread);
  pool_.ClearStops();
  RETURN_IF_ERROR(timeline.GoTo(best->hit.count, /*dense=*/false, nullptr));
  moment_ = best->moment;
  ASSIGN_OR_RETURN(RunStop stop, timeline.DescribeHit(request, best->hit));
  return stop;
}

// Searches all threads down to `low`, or to the hit found if that comes later.
absl::Status Timeline::Impl::SearchWindowBackward(const RunRequest& request, uint64_t floor,
                                                  uint64_t low,
                                                  absl::flat_hash_map<int32_t, uint64_t>* searched,
                                                  std::optional<FoundHit>* best) {
  // Those that ran last come first: of the others there is mostly little left to search then.
  std::vector<int32_t> threads = ActiveThreads(request, low, moment_);
  const auto last_run = [&](int32_t thread) {
    return schedule().MomentTo(thread, schedule().CountAt(thread, moment_));
  };
  std::sort(threads.begin(), threads.end(),
            [&](int32_t a, int32_t b) { return last_run(a) > last_run(b); });
  for (int32_t thread : threads) {
    const uint64_t before =
        searched->emplace(thread, schedule().CountAt(thread, moment_)).first->second;
    const uint64_t least = best->has_value() ? std::max(low, (*best)->moment) : low;
    const uint64_t down_to = schedule().CountAt(thread, least);
    if (before <= down_to) continue;
    if (!MayStop(request, thread, down_to, before)) {
      (*searched)[thread] = down_to;
      continue;
    }
    const uint64_t thread_floor = schedule().CountAt(thread, floor);
    ThreadTimeline& timeline = Of(thread);
    absl::StatusOr<std::optional<ThreadTimeline::Hit>> hit =
        timeline.LastHitBefore(request, thread_floor, down_to, before);
    (*searched)[thread] = timeline.searched_to();
    RETURN_IF_ERROR(hit.status());
    if (!hit->has_value()) continue;
    // Nothing of this thread before its last hit matters.
    (*searched)[thread] = thread_floor;
    const uint64_t moment = schedule().MomentFrom(thread, (*hit)->count);
    if (best->has_value() && (*best)->moment >= moment) continue;
    *best = FoundHit{moment, thread, **hit};
  }
  return absl::OkStatus();
}

absl::StatusOr<RunStop> Timeline::Impl::StepRange(const RunRequest& request) {
  const int32_t thread = RequestThread(request);
  for (bool first = true;; first = false) {
    if (!first && Raised(request)) {
      return RunStop{.kind = StopKind::kInterrupted, .thread = thread};
    }
    ASSIGN_OR_RETURN(std::optional<RunStop> stop, StepOnce(request, thread));
    if (stop.has_value()) return *stop;
    ThreadTimeline& timeline = Of(thread);
    if (!InRange(request, timeline.replay()->pc())) {
      return RunStop{.kind = StopKind::kStep, .thread = thread};
    }
    if (timeline.replay()->SignalIsNext()) continue;
    if (std::optional<size_t> index = timeline.MatchingBreakpoint(request)) {
      return RunStop{.kind = StopKind::kBreakpoint, .thread = thread, .index = *index};
    }
  }
}

// One transition of `thread`, and what others do meanwhile. What stopped it or them; nullopt: the
// step was made and nothing else stops in the state reached.
absl::StatusOr<std::optional<RunStop>> Timeline::Impl::StepOnce(const RunRequest& request,
                                                                int32_t thread) {
  const bool forward = request.direction == Direction::kForward;
  const ThreadState& state = process_.thread(thread);
  const uint64_t count = CountOf(thread);
  if (count == (forward ? state.end_count() : state.begin_count())) {
    // The thread makes no more steps: the others go on.
    RunRequest run = request;
    run.step = false;
    run.only_thread = false;
    ASSIGN_OR_RETURN(RunStop stop, RunTowards(run));
    return stop;
  }
  // Where the step is made; others run before.
  const uint64_t there =
      forward ? schedule().MomentFrom(thread, count) : schedule().MomentFrom(thread, count - 1) + 1;
  if (there != moment_ && !request.only_thread) {
    ASSIGN_OR_RETURN(std::optional<RunStop> stop,
                     forward ? RunForwardTo(request, there) : RunBackwardTo(request, there));
    if (stop.has_value()) return stop;
  }
  ThreadTimeline& timeline = Of(thread);
  std::optional<WatchHit> hit;
  absl::StatusOr<bool> moved = forward ? timeline.StepForward(count, &hit, request.interrupt)
                                       : timeline.StepBackward(count, &hit, request.interrupt);
  if (absl::IsCancelled(moved.status())) {
    return RunStop{.kind = StopKind::kInterrupted, .thread = thread};
  }
  RETURN_IF_ERROR(moved.status());
  const uint64_t reached = timeline.count();
  moment_ = forward ? schedule().MomentTo(thread, reached) : schedule().MomentFrom(thread, reached);
  if (hit.has_value() && timeline.WatchHolds(request, hit->index, /*before=*/!forward)) {
    return timeline.WatchStop(request, *hit);
  }
  return StopInState(request, thread, reached);
}

}  // namespace hindsight
