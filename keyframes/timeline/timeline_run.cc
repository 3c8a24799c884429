#include "keyframes/timeline/timeline_run.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// The first window: about 40 ms of replay. What lies near is found without replaying all threads
// far back; where nothing lies near, few windows reach far.
constexpr uint64_t kFirstWindow = 4'000'000;
constexpr uint64_t kWidening = 4;

// Of spans in which watched memory was not known.
constexpr size_t kMostUnknownReported = 4;

bool InRange(const RunRequest& request, uint64_t pc) {
  return pc >= request.range_start && pc < request.range_end;
}

}  // namespace

std::vector<int32_t> TimelineRun::ActiveThreads(uint64_t low, uint64_t high) const {
  std::vector<int32_t> threads;
  absl::flat_hash_set<int32_t> seen;
  for (size_t i = replay_.schedule().SliceAt(low); i < replay_.schedule().slices().size(); ++i) {
    const Slice& slice = replay_.schedule().slices()[i];
    if (slice.moment >= high) break;
    if (slice.length == 0 || slice.moment + slice.length <= low) continue;
    if ((request_.only_thread && slice.thread != thread_) || !seen.insert(slice.thread).second)
      continue;
    threads.push_back(slice.thread);
  }
  return threads;
}

absl::StatusOr<RunStop> TimelineRun::Go(std::optional<Reported>* reported) {
  const uint64_t start = replay_.moment();
  if (request_.thread != 0) RETURN_IF_ERROR(replay_.CheckAlive(request_.thread));
  if (!request_.step && reported->has_value() && (*reported)->moment == start) {
    const std::optional<RunStop> here =
        events_.AtSameMoment(request_, only(), (*reported)->kind, start);
    if (here.has_value()) {
      *reported = Reported{start, here->kind};
      return *here;
    }
  }
  reported->reset();
  replay_.SetStops(request_);
  absl::StatusOr<RunStop> stop = RunTowards();
  replay_.ClearStops();
  if (stop.ok()) {
    const uint64_t end = replay_.moment();
    *reported = Reported{end, stop->kind};
    stop->unknown = UnknownOnTheWay(std::min(start, end), std::max(start, end));
  } else {
    replay_.set_moment(start);
  }
  return stop;
}

// Where between these moments changes of watched memory could not be seen. It is no reason to fail
// a run that this cannot be said.
std::vector<UnknownMemory> TimelineRun::UnknownOnTheWay(uint64_t low, uint64_t high) {
  std::vector<UnknownMemory> unknown = UnknownBeforeImports(low, high);
  const size_t most = unknown.size() + kMostUnknownReported;
  for (const WatchpointSpec& watched : request_.watchpoints) {
    if (!watched.on_write()) continue;
    const auto spans = unknown_.Find(watched.address, watched.length, low, high);
    if (!spans.ok()) break;
    for (const UnknownSpan& span : *spans) {
      if (unknown.size() == most) break;
      // Other threads may know what this one did not.
      const uint64_t address = std::max(watched.address, span.page);
      uint8_t byte = 0;
      const auto known = replay_.memory().Read(span.thread, std::max(span.from, low), address,
                                               absl::MakeSpan(&byte, 1), request_.interrupt);
      if (!absl::IsNotFound(known.status())) continue;
      unknown.push_back(
          {address, span.thread, span.from, std::min(span.to, replay_.process().end_moment())});
    }
  }
  std::stable_sort(unknown.begin(), unknown.end(),
                   [](const UnknownMemory& a, const UnknownMemory& b) { return a.from > b.from; });
  if (unknown.size() > kMostUnknownReported) unknown.resize(kMostUnknownReported);
  return unknown;
}

// Of watched memory that came in without having been known: there was nothing to compare with.
std::vector<UnknownMemory> TimelineRun::UnknownBeforeImports(uint64_t low, uint64_t high) {
  std::vector<UnknownMemory> unknown;
  for (const auto& [thread, import] : replay_.TakeUnknownImports()) {
    const uint64_t to = replay_.schedule().MomentFrom(thread, import.count);
    if (to <= low || to > high) continue;
    const uint64_t since = replay_.memory().UnknownSince(to - 1, import.page);
    for (const WatchpointSpec& watched : request_.watchpoints) {
      if (!watched.on_write() || watched.length == 0) continue;
      const uint64_t last = watched.address + (watched.length - 1);
      if (import.page > last || watched.address >= import.page + kPageBytes) continue;
      // Where it is not known since when: as far as was looked.
      unknown.push_back(
          {std::max(watched.address, import.page), thread, since < to - 1 ? since : low, to});
    }
  }
  return unknown;
}

// Whether it is worth while to search states low..high of `thread`. Of many short threads most
// touch nothing of what is looked for, and replaying each of them costs more than what it executes.
bool TimelineRun::MayStop(int32_t thread, uint64_t low, uint64_t high) {
  const uint64_t number = replay_.process().thread(thread).SegmentAt(low);
  // To look at the records of many segments would only come on top of searching them.
  if (replay_.process().thread(thread).SegmentAt(high) != number || request_.interrupted())
    return true;
  const auto touches = [&](uint64_t address, uint64_t length) {
    // What cannot be read the search reports.
    return replay_.memory().Touches(thread, number, address, length).value_or(true);
  };
  if (std::any_of(request_.breakpoints.begin(), request_.breakpoints.end(),
                  [&](const BreakpointSpec& stop) { return touches(stop.address, 1); })) {
    return true;
  }
  if (request_.watchpoints.empty()) return false;
  // A full keyframe may show a change, too.
  return KeyframeAtStart(replay_.trace(), thread, number) != nullptr ||
         std::any_of(
             request_.watchpoints.begin(), request_.watchpoints.end(),
             [&](const WatchpointSpec& stop) { return touches(stop.address, stop.length); });
}

absl::StatusOr<RunStop> TimelineRun::RunTowards() {
  if (request_.step) return StepRange();
  const bool forward = request_.direction == Direction::kForward;
  ASSIGN_OR_RETURN(std::optional<RunStop> stop,
                   forward ? RunForwardTo(replay_.process().end_moment()) : RunBackwardTo(0));
  if (stop.has_value()) return *stop;
  return RunStop{.kind = forward ? StopKind::kEnd : StopKind::kBegin, .thread = replay_.current()};
}

absl::StatusOr<std::optional<RunStop>> TimelineRun::RunForwardTo(uint64_t limit) {
  std::optional<EventStop> event = events_.Next(request_, only(), replay_.moment());
  const bool stops = event.has_value() && event->moment <= limit;
  if (stops) limit = event->moment;
  if (LooksForCode()) {
    ASSIGN_OR_RETURN(std::optional<RunStop> stop, SearchForward(limit));
    if (stop.has_value()) return stop;
  }
  absl::Status status = replay_.SeekTo(limit, request_.interrupt);
  if (absl::IsCancelled(status)) {
    return RunStop{.kind = StopKind::kInterrupted, .thread = replay_.current()};
  }
  RETURN_IF_ERROR(status);
  if (stops) return event->stop;
  return std::nullopt;
}

absl::StatusOr<std::optional<RunStop>> TimelineRun::SearchForward(uint64_t limit) {
  bool leave = request_.leave_first_breakpoint;
  for (uint64_t width = kFirstWindow; replay_.moment() < limit; width *= kWidening) {
    uint64_t high = limit;
    // One thread alone is as good as searched in order.
    if (limit - replay_.moment() > width && ActiveThreads(replay_.moment(), limit).size() > 1) {
      high = replay_.moment() + width;
    }
    ASSIGN_OR_RETURN(std::optional<RunStop> stop, SearchWindowForward(high, leave));
    if (stop.has_value()) return stop;
    replay_.set_moment(high);
    leave = false;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<RunStop>> TimelineRun::SearchWindowForward(uint64_t high, bool leave) {
  const uint64_t low = replay_.moment();
  const int32_t first = replay_.current();
  const std::vector<int32_t> threads = ActiveThreads(low, high);
  std::optional<ThreadStop> best;
  for (int32_t thread : threads) {
    const uint64_t from = replay_.schedule().CountAt(thread, low);
    const uint64_t to = replay_.schedule().CountAt(thread, high);
    if (from >= to || !MayStop(thread, from, to)) continue;
    ASSIGN_OR_RETURN(
        std::optional<ThreadStop> stop,
        replay_.Of(thread).forward().Run(request_, from, to, leave && thread == first));
    if (!stop.has_value()) continue;
    if (stop->stop.kind == StopKind::kInterrupted) {
      if (threads.size() == 1) replay_.set_moment(replay_.schedule().MomentTo(thread, stop->count));
      return stop->stop;
    }
    const bool made = stop->stop.kind == StopKind::kWatchpoint;
    // An access that was just made comes before what is made next.
    high = made ? replay_.schedule().MomentTo(thread, stop->count)
                : replay_.schedule().MomentFrom(thread, stop->count);
    best = std::move(stop);
  }
  if (!best.has_value()) return std::nullopt;
  replay_.set_moment(high);
  return best->stop;
}

absl::StatusOr<std::optional<RunStop>> TimelineRun::RunBackwardTo(uint64_t floor) {
  if (replay_.moment() <= floor) return std::nullopt;
  std::optional<EventStop> event = events_.Previous(request_, only(), replay_.moment());
  const bool stops = event.has_value() && event->moment >= floor;
  if (stops) floor = event->moment;
  if (LooksForCode()) {
    ASSIGN_OR_RETURN(std::optional<RunStop> stop, SearchBackward(floor));
    if (stop.has_value()) return stop;
  }
  RETURN_IF_ERROR(replay_.SeekTo(floor, nullptr));
  if (stops) return event->stop;
  return std::nullopt;
}

absl::StatusOr<std::optional<RunStop>> TimelineRun::SearchBackward(uint64_t floor) {
  // Down to which state each thread has been searched.
  absl::flat_hash_map<int32_t, uint64_t> searched;
  const uint64_t start = replay_.moment();
  std::optional<FoundHit> best;
  uint64_t low = start;
  for (uint64_t width = kFirstWindow; low > floor; width *= kWidening) {
    uint64_t next = floor;
    if (low - floor > width && ActiveThreads(floor, low).size() > 1) next = low - width;
    if (best.has_value()) next = std::max(next, best->moment);
    const bool alone = next == floor && ActiveThreads(floor, start).size() <= 1;
    const absl::Status status = SearchWindowBackward(floor, next, &searched, &best);
    if (absl::IsCancelled(status)) {
      if (alone && searched.size() == 1) {
        const auto& [thread, count] = *searched.begin();
        low = std::min(low, replay_.schedule().MomentTo(thread, count));
      }
      RETURN_IF_ERROR(replay_.SeekTo(low, nullptr));
      return RunStop{.kind = StopKind::kInterrupted, .thread = replay_.current()};
    }
    RETURN_IF_ERROR(status);
    low = next;
    if (best.has_value() && best->moment >= low) break;
  }
  if (!best.has_value() || best->moment < floor) return std::nullopt;
  ThreadTimeline& timeline = replay_.Of(best->thread);
  replay_.ClearReplayStops();
  RETURN_IF_ERROR(timeline.replay().GoTo(best->hit.count, /*dense=*/false, nullptr));
  replay_.set_moment(best->moment);
  return timeline.backward().DescribeHit(request_, best->hit);
}

// Searches all threads down to `low`, or to the hit found if that comes later.
absl::Status TimelineRun::SearchWindowBackward(uint64_t floor, uint64_t low,
                                               absl::flat_hash_map<int32_t, uint64_t>* searched,
                                               std::optional<FoundHit>* best) {
  // Those that ran last come first: of the others there is mostly little left to search then.
  std::vector<int32_t> threads = ActiveThreads(low, replay_.moment());
  const auto last_run = [&](int32_t thread) {
    return replay_.schedule().MomentTo(thread,
                                       replay_.schedule().CountAt(thread, replay_.moment()));
  };
  std::sort(threads.begin(), threads.end(),
            [&](int32_t a, int32_t b) { return last_run(a) > last_run(b); });
  for (int32_t thread : threads) {
    const uint64_t before =
        searched->emplace(thread, replay_.schedule().CountAt(thread, replay_.moment()))
            .first->second;
    const uint64_t least = best->has_value() ? std::max(low, (*best)->moment) : low;
    const uint64_t down_to = replay_.schedule().CountAt(thread, least);
    if (before <= down_to) continue;
    if (!MayStop(thread, down_to, before)) {
      (*searched)[thread] = down_to;
      continue;
    }
    const uint64_t thread_floor = replay_.schedule().CountAt(thread, floor);
    ThreadTimeline& timeline = replay_.Of(thread);
    absl::StatusOr<std::optional<BackwardSearch::Hit>> hit =
        timeline.backward().LastHitBefore(request_, thread_floor, down_to, before);
    (*searched)[thread] = timeline.backward().searched_to();
    RETURN_IF_ERROR(hit.status());
    if (!hit->has_value()) continue;
    // Nothing of this thread before its last hit matters.
    (*searched)[thread] = thread_floor;
    const uint64_t moment = replay_.schedule().MomentFrom(thread, (*hit)->count);
    if (best->has_value() && (*best)->moment >= moment) continue;
    *best = FoundHit{moment, thread, **hit};
  }
  return absl::OkStatus();
}

absl::StatusOr<RunStop> TimelineRun::StepRange() {
  for (bool first = true;; first = false) {
    if (!first && request_.interrupted()) {
      return RunStop{.kind = StopKind::kInterrupted, .thread = thread_};
    }
    ASSIGN_OR_RETURN(std::optional<RunStop> stop, StepOnce());
    if (stop.has_value()) return *stop;
    ThreadTimeline& timeline = replay_.Of(thread_);
    if (!InRange(request_, timeline.replay().here()->pc())) {
      return RunStop{.kind = StopKind::kStep, .thread = thread_};
    }
    if (timeline.replay().here()->SignalIsNext()) continue;
    if (std::optional<size_t> index = timeline.stops().MatchingBreakpoint(request_)) {
      return RunStop{.kind = StopKind::kBreakpoint, .thread = thread_, .index = *index};
    }
  }
}

// One transition of `thread`, and what others do meanwhile. What stopped it or them; nullopt: the
// step was made and nothing else stops in the state reached.
absl::StatusOr<std::optional<RunStop>> TimelineRun::StepOnce() {
  const bool forward = request_.direction == Direction::kForward;
  const ThreadState& state = replay_.process().thread(thread_);
  const uint64_t count = replay_.CountOf(thread_);
  if (count == (forward ? state.end_count() : state.begin_count())) {
    // The thread makes no more steps: the others go on.
    RunRequest others = request_;
    others.step = false;
    others.only_thread = false;
    ASSIGN_OR_RETURN(RunStop stop,
                     TimelineRun(&replay_, &events_, &unknown_, &others).RunTowards());
    return stop;
  }
  // Where the step is made; others run before.
  const uint64_t there = forward ? replay_.schedule().MomentFrom(thread_, count)
                                 : replay_.schedule().MomentFrom(thread_, count - 1) + 1;
  if (there != replay_.moment() && !request_.only_thread) {
    ASSIGN_OR_RETURN(std::optional<RunStop> stop,
                     forward ? RunForwardTo(there) : RunBackwardTo(there));
    if (stop.has_value()) return stop;
  }
  ThreadTimeline& timeline = replay_.Of(thread_);
  std::optional<WatchHit> hit;
  absl::StatusOr<bool> moved = forward ? timeline.StepForward(count, &hit, request_.interrupt)
                                       : timeline.StepBackward(count, &hit, request_.interrupt);
  if (absl::IsCancelled(moved.status())) {
    return RunStop{.kind = StopKind::kInterrupted, .thread = thread_};
  }
  RETURN_IF_ERROR(moved.status());
  const uint64_t reached = timeline.count();
  replay_.set_moment(forward ? replay_.schedule().MomentTo(thread_, reached)
                             : replay_.schedule().MomentFrom(thread_, reached));
  if (hit.has_value()) {
    ASSIGN_OR_RETURN(hit, timeline.stops().AcceptWatch(request_, *hit, /*before=*/!forward));
  }
  if (hit.has_value()) return timeline.stops().WatchStop(request_, *hit);
  return events_.InState(request_, thread_, reached);
}

}  // namespace hindsight
