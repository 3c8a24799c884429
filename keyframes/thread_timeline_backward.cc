// Running backward: find the last stop before the present by replaying forward, and go there.
//
// The segment stood in is searched in windows that widen, each from a checkpoint; older segments
// are searched whole, several at once. Hits are first looked for without regard to conditions; only
// where there are any are the conditions evaluated, at one hit after the other.

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "keyframes/thread_timeline.h"

namespace hindsight {
namespace {

// At most about 20 ms of replay between two looks at the interrupt flag.
constexpr uint64_t kPollStates = 2'000'000;

bool HasConditions(const RunRequest& request) {
  auto conditional = [](const auto& stop) { return stop.condition != nullptr; };
  return std::any_of(request.breakpoints.begin(), request.breakpoints.end(), conditional) ||
         std::any_of(request.watchpoints.begin(), request.watchpoints.end(), conditional);
}

// Removes from `imports` those behind `count`, and returns them.
std::vector<WatchedImport> TakeBehind(uint64_t count, std::vector<WatchedImport>* imports) {
  auto behind =
      std::stable_partition(imports->begin(), imports->end(),
                            [count](const WatchedImport& import) { return import.count <= count; });
  std::vector<WatchedImport> taken(behind, imports->end());
  imports->erase(behind, imports->end());
  return taken;
}

}  // namespace

absl::StatusOr<RunStop> ThreadTimeline::RunBackward(const RunRequest& request) {
  const uint64_t start = count();
  if (at_begin()) return RunStop{.kind = RunStopKind::kBegin};
  const std::optional<EventStop> event = PreviousEventStop(request, start);
  const uint64_t floor = event.has_value() ? event->count : state_.begin_count();
  RunStop stop = event.has_value() ? event->stop : RunStop{.kind = RunStopKind::kBegin};
  uint64_t target = floor;
  if (!breakpoints_.empty() || !watchpoints_.empty()) {
    searched_to_ = start;
    absl::StatusOr<std::optional<Hit>> hit = LastHitBefore(request, floor, start);
    if (absl::IsCancelled(hit.status())) {
      target = searched_to_;
      stop = {.kind = RunStopKind::kInterrupted};
    } else if (!hit.ok()) {
      return hit.status();
    } else if (hit->has_value()) {
      target = (*hit)->count;
      ClearStops();
      RETURN_IF_ERROR(GoTo(target, /*dense=*/false, nullptr));
      if ((*hit)->is_watch) return WatchStop(request, (*hit)->watch);
      return RunStop{.kind = RunStopKind::kBreakpoint,
                     .index = (*hit)->breakpoint.value_or(FirstBreakpointHere(request))};
    }
  }
  ClearStops();
  RETURN_IF_ERROR(GoTo(target, /*dense=*/false, nullptr));
  return stop;
}

size_t ThreadTimeline::FirstBreakpointHere(const RunRequest& request) const {
  const uint64_t pc = here_->pc();
  auto it = std::find_if(request.breakpoints.begin(), request.breakpoints.end(),
                         [pc](const PcStop& stop) { return stop.address == pc; });
  return static_cast<size_t>(it - request.breakpoints.begin());
}

// The last hit in states [floor, before).
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::LastHitBefore(
    const RunRequest& request, uint64_t floor, uint64_t before) {
  const SegmentInfo info = here_->segment().info();
  ASSIGN_OR_RETURN(std::optional<Hit> hit,
                   SearchWindows(request, std::max(floor, info.first_count), before));
  if (hit.has_value() && hit->count < floor) hit.reset();
  if (hit.has_value() || floor >= info.first_count) return hit;
  return SearchSegments(request, floor, state_.SegmentAt(info.first_count - 1));
}

// Searches the segment stood in.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::SearchWindows(
    const RunRequest& request, uint64_t low, uint64_t before) {
  const uint64_t number = here_->segment().info().number;
  const uint64_t first = here_->segment().info().first_count;
  size_t width = 1;  // of the window, in checkpoints
  bool at_first = false;
  for (uint64_t high = before; high > low || (high == first && !at_first);) {
    ASSIGN_OR_RETURN(here_, ReplayOf(number));
    here_->SetStops(breakpoints_, watchpoints_);
    const std::optional<uint64_t> start = here_->checkpoints().NthBefore(high, width);
    RETURN_IF_ERROR(here_->RewindTo(std::max(low, start.value_or(low))));
    if (count() < low) RETURN_IF_ERROR(here_->AdvanceTo(low, request.interrupt));
    const uint64_t window_low = count();
    HitTrace trace;
    at_first = window_low == first;
    if (at_first) trace.unknown = WatchedAtStart(*trace_, *here_, watchpoints_);
    RETURN_IF_ERROR(here_->AdvanceNoting(high, &trace, request.interrupt));
    ASSIGN_OR_RETURN(std::optional<Hit> hit, Accept(request, trace, window_low, high));
    if (hit.has_value()) return hit;
    searched_to_ = high = window_low;
    width *= 2;
    if (at_first) break;
  }
  return std::nullopt;
}

// Searches the segments from `newest` back to the one of `floor`.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::SearchSegments(
    const RunRequest& request, uint64_t floor, uint64_t newest) {
  std::optional<Hit> found;
  // Watched pages that segments searched began with; what they were before, older ones tell.
  std::vector<WatchedImport> pending;
  auto take = [&](const SegmentHits& hits) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(found, ResolvePending(request, hits.endings, &pending));
    if (found.has_value()) return true;
    const uint64_t low = std::max(floor, hits.first_count);
    HitTrace trace = hits.trace;
    if (trace.any()) {
      ASSIGN_OR_RETURN(found, ResolvePendingByMemory(request, &pending));
      if (found.has_value()) return true;
      ASSIGN_OR_RETURN(found, Accept(request, trace, low, hits.end_count));
      if (found.has_value() && found->count < floor) found.reset();
      if (found.has_value()) return true;
    } else {
      pending.insert(pending.end(), trace.unknown.begin(), trace.unknown.end());
      // What came in behind a full keyframe is compared with that, not with older segments.
      if (KeyframeAtStart(*trace_, state_.thread(), hits.number) != nullptr) {
        std::vector<WatchedImport> behind = TakeBehind(hits.first_count, &pending);
        ASSIGN_OR_RETURN(found, ResolvePendingByMemory(request, &behind));
        if (found.has_value()) return true;
      }
    }
    searched_to_ = low;
    return false;
  };
  const SegmentSearch::Request search = {.from = newest,
                                         .to = state_.SegmentAt(floor),
                                         .breakpoints = &breakpoints_,
                                         .watchpoints = &watchpoints_,
                                         .interrupt = request.interrupt};
  RETURN_IF_ERROR(search_.Run(search, take));
  if (!found.has_value()) {
    ASSIGN_OR_RETURN(found, ResolvePendingByMemory(request, &pending));
  }
  if (found.has_value() && found->count < floor) found.reset();
  return found;
}

// Compares pages that later segments began with to the ends of an older one.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::ResolvePending(
    const RunRequest& request, const std::vector<WatchedImport>& endings,
    std::vector<WatchedImport>* pending) {
  std::vector<WatchedImport> open = std::exchange(*pending, {});
  for (WatchedImport& import : open) {
    auto ending = std::find_if(endings.begin(), endings.end(), [&](const WatchedImport& end) {
      return end.index == import.index && end.page == import.page;
    });
    if (ending == endings.end()) {
      pending->push_back(std::move(import));
      continue;
    }
    if (ending->bytes == import.bytes) continue;
    const auto differs =
        std::mismatch(ending->bytes.begin(), ending->bytes.end(), import.bytes.begin());
    const uint64_t offset = WatchedIn(import.page, watchpoints_[import.index]).offset +
                            static_cast<uint64_t>(differs.first - ending->bytes.begin());
    Hit hit{.count = import.count - 1, .is_watch = true};
    hit.watch = {import.count - 1, import.index, import.page + offset};
    ASSIGN_OR_RETURN(bool holds, ConditionHolds(request, &hit));
    if (holds) return hit;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::ResolvePendingByMemory(
    const RunRequest& request, std::vector<WatchedImport>* pending) {
  for (const WatchedImport& import : std::exchange(*pending, {})) {
    ASSIGN_OR_RETURN(std::optional<WatchHit> change, ChangedImport({import}));
    if (!change.has_value()) continue;
    Hit hit{.count = change->count, .is_watch = true, .watch = *change};
    ASSIGN_OR_RETURN(bool holds, ConditionHolds(request, &hit));
    if (holds) return hit;
  }
  return std::nullopt;
}

// The last hit that `trace` tells of, noted in states [low, before) of one segment.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::Resolve(const HitTrace& trace,
                                                                           uint64_t low,
                                                                           uint64_t before) {
  std::optional<Hit> best;
  if (trace.cpu.breakpoint_hits > 0 && trace.cpu.last_breakpoint_count >= low) {
    best = Hit{.count = trace.cpu.last_breakpoint_count};
  }
  auto take_later = [&best](const WatchHit& watch) {
    // Where a breakpoint stands on the writing instruction the watchpoint is the better news.
    if (best.has_value() && best->count > watch.count) return;
    best = Hit{.count = watch.count, .is_watch = true, .watch = watch};
  };
  if (trace.import.has_value()) take_later(*trace.import);
  if (trace.cpu.watch_hits > 0 &&
      (!best.has_value() || trace.cpu.last_watch_block_end > best->count)) {
    ASSIGN_OR_RETURN(std::optional<WatchHit> watch, ResolveWatch(trace, low, before));
    if (watch.has_value()) take_later(*watch);
  }
  std::vector<WatchedImport> imports = trace.unknown;
  std::stable_sort(
      imports.begin(), imports.end(),
      [](const WatchedImport& a, const WatchedImport& b) { return a.count > b.count; });
  for (const WatchedImport& import : imports) {
    if (best.has_value() && import.count <= best->count) break;
    ASSIGN_OR_RETURN(std::optional<WatchHit> change, ChangedImport({import}));
    if (!change.has_value()) continue;
    take_later(*change);
    break;
  }
  return best;
}

// Steps through the block in which the last watched access was noted.
absl::StatusOr<std::optional<WatchHit>> ThreadTimeline::ResolveWatch(const HitTrace& trace,
                                                                     uint64_t low,
                                                                     uint64_t before) {
  const uint64_t block = std::max(low, trace.cpu.last_watch_block_count);
  const uint64_t end = std::min(trace.cpu.last_watch_block_end, before);
  std::optional<WatchHit> last;
  RETURN_IF_ERROR(GoTo(block, /*dense=*/false, nullptr));
  here_->SetStops(breakpoints_, watchpoints_);
  while (count() < end) {
    RETURN_IF_ERROR(here_->Step());
    if (here_->step_hit_watch()) last = here_->watch_hit();
  }
  if (last.has_value() || block <= low) return last;
  // Nothing there after all: what was noted before it has been lost, so it is looked for again.
  RETURN_IF_ERROR(GoTo(low, /*dense=*/false, nullptr));
  here_->SetStops(breakpoints_, watchpoints_);
  HitTrace earlier;
  RETURN_IF_ERROR(here_->AdvanceNoting(block, &earlier, nullptr));
  if (earlier.cpu.watch_hits == 0) return std::nullopt;
  return ResolveWatch(earlier, low, block);
}

// The last hit that `trace` tells of and whose condition holds.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::Accept(const RunRequest& request,
                                                                          const HitTrace& trace,
                                                                          uint64_t low,
                                                                          uint64_t before) {
  ASSIGN_OR_RETURN(std::optional<Hit> hit, Resolve(trace, low, before));
  if (!hit.has_value() || !HasConditions(request)) return hit;
  ASSIGN_OR_RETURN(bool holds, ConditionHolds(request, &*hit));
  if (holds) return hit;
  ASSIGN_OR_RETURN(hit, ScanConditions(request, low, hit->count));
  if (hit.has_value()) return hit;
  // What the segment began with changed before it.
  std::vector<WatchedImport> at_start = trace.unknown;
  (void)TakeBehind(low, &at_start);
  return ResolvePendingByMemory(request, &at_start);
}

// Goes to the hit and evaluates the conditions there. A watchpoint whose condition does not hold
// leaves room for a breakpoint in the same state.
absl::StatusOr<bool> ThreadTimeline::ConditionHolds(const RunRequest& request, Hit* hit) {
  if (!HasConditions(request)) return true;
  RETURN_IF_ERROR(GoTo(hit->count, /*dense=*/false, nullptr));
  if (hit->is_watch && WatchHolds(request, hit->watch.index)) return true;
  if (here_->discontinuity_is_signal()) return false;
  hit->breakpoint = MatchingBreakpoint(request);
  hit->is_watch = false;
  return hit->breakpoint.has_value();
}

// Stops at every hit in [low, before) of one segment; the last whose condition holds.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::ScanConditions(
    const RunRequest& request, uint64_t low, uint64_t before) {
  std::optional<Hit> last;
  if (before <= low) return last;
  RETURN_IF_ERROR(GoTo(low, /*dense=*/false, nullptr));
  here_->SetStops(breakpoints_, watchpoints_);
  std::optional<uint64_t> leave;
  while (count() < before) {
    if (Raised(request)) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(LegEnd end, here_->RunLeg({.limit = std::min(before, count() + kPollStates),
                                                .leave_first_breakpoint = leave == count()}));
    if (end == LegEnd::kBreakpoint) {
      leave = count();
      std::optional<size_t> index = MatchingBreakpoint(request);
      if (index.has_value()) last = Hit{.count = count(), .breakpoint = index};
      continue;
    }
    std::optional<WatchHit> watch;
    if (end == LegEnd::kWatch) {
      watch = here_->watch_hit();
    } else if (!here_->unknown_imports().empty()) {
      ASSIGN_OR_RETURN(watch, ChangedImport(here_->unknown_imports()));
    }
    if (!watch.has_value()) continue;
    ASSIGN_OR_RETURN(bool holds, WatchHeldBefore(request, *watch));
    if (holds) last = Hit{.count = watch->count, .is_watch = true, .watch = *watch};
  }
  return last;
}

// Evaluates the condition in the state before the transition just made.
absl::StatusOr<bool> ThreadTimeline::WatchHeldBefore(const RunRequest& request,
                                                     const WatchHit& watch) {
  if (!request.watchpoints[watch.index].condition) return true;
  RETURN_IF_ERROR(here_->MoveTo(watch.count, /*dense=*/false));
  const bool holds = WatchHolds(request, watch.index);
  RETURN_IF_ERROR(here_->Step());
  return holds;
}

}  // namespace hindsight
