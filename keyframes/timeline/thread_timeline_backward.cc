// Running backward: find the last stop before a state by replaying forward.
//
// The segment of that state is searched in windows that widen, each from a checkpoint; older
// segments are searched whole, several at once. Hits are first looked for without regard to
// conditions; only where there are any are the conditions evaluated, at one hit after the other.

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "keyframes/timeline/thread_timeline.h"

namespace hindsight {
namespace {

// At most about 20 ms of replay between two looks at the interrupt flag.
constexpr uint64_t kPollStates = 2'000'000;

bool HasConditions(const RunRequest& request) {
  auto conditional = [](const auto& stop) { return stop.condition != nullptr || stop.thread != 0; };
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

absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::LastHitBefore(
    const RunRequest& request, uint64_t floor, uint64_t low, uint64_t before) {
  const ReplayPool::Pin pin(&holder_);
  searched_to_ = before;
  RETURN_IF_ERROR(Enter(state_.SegmentAt(before)));
  const SegmentInfo info = here()->segment().info();
  ASSIGN_OR_RETURN(std::optional<Hit> hit, SearchWindows(request, std::max(floor, info.first_count),
                                                         std::max(low, info.first_count), before));
  if (hit.has_value() && hit->count < floor) hit.reset();
  if (hit.has_value() || low >= info.first_count) return hit;
  return SearchSegments(request, floor, state_.SegmentAt(info.first_count - 1),
                        state_.SegmentAt(low));
}

// Searches the segment stood in.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::SearchWindows(
    const RunRequest& request, uint64_t floor, uint64_t low, uint64_t before) {
  const uint64_t number = here()->segment().info().number;
  const uint64_t first = here()->segment().info().first_count;
  size_t width = 1;  // of the window, in checkpoints
  bool at_first = false;
  for (uint64_t high = before; high > low || (high == first && !at_first);) {
    RETURN_IF_ERROR(Enter(number));
    here()->SetStops(breakpoints_, watchpoints_);
    const std::optional<uint64_t> start = here()->checkpoints().NthBefore(high, width);
    RETURN_IF_ERROR(here()->RewindTo(std::max(low, start.value_or(low))));
    // What lies between a checkpoint and `low` has to be replayed anyhow.
    if (count() < floor) RETURN_IF_ERROR(here()->AdvanceLeaving(floor, request.interrupt));
    const uint64_t window_low = count();
    HitTrace trace;
    at_first = window_low == first;
    if (at_first) trace.unknown = WatchedAtStartHere();
    RETURN_IF_ERROR(here()->AdvanceNoting(high, &trace, request.interrupt));
    ASSIGN_OR_RETURN(std::optional<Hit> hit, Accept(request, trace, window_low, high));
    if (hit.has_value()) return hit;
    searched_to_ = high = window_low;
    width *= 2;
    if (at_first) break;
  }
  return std::nullopt;
}

// Searches the segments from `newest` back to `oldest`.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::SearchSegments(
    const RunRequest& request, uint64_t floor, uint64_t newest, uint64_t oldest) {
  std::optional<Hit> found;
  // Watched pages that segments searched began with; what they were before, older ones tell.
  std::vector<WatchedImport> pending;
  auto take = [&](const SegmentHits& hits) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(found, TakeSegment(request, hits, floor, &pending));
    if (!found.has_value()) searched_to_ = std::max(floor, hits.first_count);
    return found.has_value();
  };
  const SegmentSearch::Request search = {.thread = state_.thread(),
                                         .from = newest,
                                         .to = oldest,
                                         .breakpoints = &breakpoints_,
                                         .watchpoints = &watchpoints_,
                                         .interrupt = request.interrupt};
  RETURN_IF_ERROR(context_.search->Run(search, take));
  if (!found.has_value()) {
    ASSIGN_OR_RETURN(found, ResolvePendingByMemory(request, &pending));
  }
  if (found.has_value() && found->count < floor) found.reset();
  return found;
}

absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::TakeSegment(
    const RunRequest& request, const SegmentHits& hits, uint64_t floor,
    std::vector<WatchedImport>* pending) {
  ASSIGN_OR_RETURN(std::optional<Hit> found, ResolvePending(request, hits.endings, pending));
  if (found.has_value()) return found;
  if (hits.trace.any()) {
    ASSIGN_OR_RETURN(found, ResolvePendingByMemory(request, pending));
    if (found.has_value()) return found;
    const uint64_t low = std::max(floor, hits.first_count);
    ASSIGN_OR_RETURN(found, Accept(request, hits.trace, low, hits.end_count));
    if (found.has_value() && found->count < floor) found.reset();
    return found;
  }
  pending->insert(pending->end(), hits.trace.unknown.begin(), hits.trace.unknown.end());
  // What came in behind a full keyframe is compared with that, not with older segments.
  if (KeyframeAtStart(*trace_, state_.thread(), hits.number) != nullptr) {
    std::vector<WatchedImport> behind = TakeBehind(hits.first_count, pending);
    ASSIGN_OR_RETURN(found, ResolvePendingByMemory(request, &behind));
  }
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
    const Watchpoint& watched = watchpoints_[import.index];
    const std::optional<uint64_t> news = FirstNews(import, watched, ending->bytes);
    if (!news.has_value()) continue;
    if (import.keyframe != 0) {  // another thread may have known better
      std::vector<WatchedImport> one = {import};
      ASSIGN_OR_RETURN(std::optional<Hit> found, ResolvePendingByMemory(request, &one));
      if (found.has_value()) return found;
      continue;
    }
    const uint64_t offset = WatchedIn(import.page, watched).offset + *news;
    Hit hit{.count = import.count - 1, .is_watch = true};
    hit.watch = {import.count - 1, import.index, import.page + offset};
    ASSIGN_OR_RETURN(bool holds, ConditionHolds(request, hit));
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
    ASSIGN_OR_RETURN(bool holds, ConditionHolds(request, hit));
    if (holds) return hit;
  }
  return std::nullopt;
}

// The last hit that `trace` tells of and whose condition holds, noted in states [low, before) of
// one segment. Watchpoints and breakpoints are looked at apart, each without the cost of the
// others.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::Accept(const RunRequest& request,
                                                                          const HitTrace& trace,
                                                                          uint64_t low,
                                                                          uint64_t before) {
  ASSIGN_OR_RETURN(std::optional<Hit> watch, AcceptWatch(request, trace, low, before));
  // Where a breakpoint stands on the writing instruction the watchpoint is the better news.
  if (watch.has_value()) low = std::max(low, watch->count + 1);
  if (trace.cpu.breakpoint_hits == 0 || trace.cpu.last_breakpoint_count < low) return watch;
  ASSIGN_OR_RETURN(std::optional<Hit> breakpoint,
                   AcceptBreakpoint(request, low, trace.cpu.last_breakpoint_count));
  return breakpoint.has_value() ? breakpoint : watch;
}

absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::AcceptWatch(
    const RunRequest& request, const HitTrace& trace, uint64_t low, uint64_t before) {
  ASSIGN_OR_RETURN(std::optional<WatchHit> last, LastWatch(trace, low, before, request.interrupt));
  if (!last.has_value()) return std::nullopt;
  Hit hit{.count = last->count, .is_watch = true, .watch = *last};
  ASSIGN_OR_RETURN(bool holds, ConditionHolds(request, hit));
  if (holds) return hit;
  ASSIGN_OR_RETURN(std::optional<Hit> earlier, ScanWatches(request, low, last->count));
  if (earlier.has_value()) return earlier;
  // What the segment began with changed before it.
  std::vector<WatchedImport> at_start = trace.unknown;
  (void)TakeBehind(low, &at_start);
  return ResolvePendingByMemory(request, &at_start);
}

// The last watched access that `trace` tells of.
absl::StatusOr<std::optional<WatchHit>> ThreadTimeline::LastWatch(
    const HitTrace& trace, uint64_t low, uint64_t before, const std::atomic<bool>* interrupt) {
  std::optional<WatchHit> best = trace.import;
  if (trace.cpu.watch_hits > 0 &&
      (!best.has_value() || trace.cpu.last_watch_block_end > best->count)) {
    ASSIGN_OR_RETURN(std::optional<WatchHit> watch, ResolveWatch(trace, low, before, interrupt));
    if (watch.has_value() && (!best.has_value() || watch->count >= best->count)) best = watch;
  }
  std::vector<WatchedImport> imports = trace.unknown;
  std::stable_sort(
      imports.begin(), imports.end(),
      [](const WatchedImport& a, const WatchedImport& b) { return a.count > b.count; });
  for (const WatchedImport& import : imports) {
    if (best.has_value() && import.count <= best->count) break;
    ASSIGN_OR_RETURN(std::optional<WatchHit> change, ChangedImport({import}));
    if (change.has_value()) return change;
  }
  return best;
}

// Steps through the block in which the last watched access was noted.
absl::StatusOr<std::optional<WatchHit>> ThreadTimeline::ResolveWatch(
    const HitTrace& trace, uint64_t low, uint64_t before, const std::atomic<bool>* interrupt) {
  const uint64_t block = std::max(low, trace.cpu.last_watch_block_count);
  const uint64_t end = std::min(trace.cpu.last_watch_block_end, before);
  std::optional<WatchHit> last;
  RETURN_IF_ERROR(GoTo(block, /*dense=*/false, interrupt));
  here()->SetStops(breakpoints_, watchpoints_);
  while (count() < end) {
    RETURN_IF_ERROR(here()->Step());
    if (here()->watch_hit().has_value()) last = here()->watch_hit();
  }
  if (last.has_value() || block <= low) return last;
  // Nothing there after all: what was noted before it has been lost, so it is looked for again.
  RETURN_IF_ERROR(GoTo(low, /*dense=*/false, interrupt));
  here()->SetStops(breakpoints_, watchpoints_);
  HitTrace earlier;
  RETURN_IF_ERROR(here()->AdvanceNoting(block, &earlier, interrupt));
  if (earlier.cpu.watch_hits == 0) return std::nullopt;
  return ResolveWatch(earlier, low, block, interrupt);
}

// Goes to the hit and evaluates the condition there.
absl::StatusOr<bool> ThreadTimeline::ConditionHolds(const RunRequest& request, const Hit& hit) {
  if (!HasConditions(request)) return true;
  RETURN_IF_ERROR(GoTo(hit.count, /*dense=*/false, request.interrupt));
  return WatchHolds(request, hit.watch.index, /*before=*/true);
}

// The last breakpoint in [low, last] of one segment whose condition holds; there is one at `last`.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::AcceptBreakpoint(
    const RunRequest& request, uint64_t low, uint64_t last) {
  if (!HasConditions(request)) return Hit{.count = last};
  RETURN_IF_ERROR(GoTo(last, /*dense=*/false, request.interrupt));
  if (std::optional<size_t> index = MatchingBreakpoint(request)) {
    return Hit{.count = last, .breakpoint = index};
  }
  std::optional<Hit> found;
  if (last <= low) return found;
  RETURN_IF_ERROR(GoTo(low, /*dense=*/false, request.interrupt));
  std::optional<uint64_t> leave;
  while (count() < last) {
    if (Raised(request)) return absl::CancelledError("interrupted");
    here()->SetStops(breakpoints_, {});
    ASSIGN_OR_RETURN(LegEnd end, here()->RunLeg({.limit = std::min(last, count() + kPollStates),
                                                 .leave_first_breakpoint = leave == count()}));
    if (end != LegEnd::kBreakpoint) continue;
    leave = count();
    std::optional<size_t> index = MatchingBreakpoint(request);
    if (index.has_value()) found = Hit{.count = count(), .breakpoint = index};
  }
  return found;
}

// Stops at every watched access in [low, before) of one segment; the last whose condition holds.
absl::StatusOr<std::optional<ThreadTimeline::Hit>> ThreadTimeline::ScanWatches(
    const RunRequest& request, uint64_t low, uint64_t before) {
  std::optional<Hit> last;
  if (before <= low) return last;
  RETURN_IF_ERROR(GoTo(low, /*dense=*/false, request.interrupt));
  while (count() < before) {
    if (Raised(request)) return absl::CancelledError("interrupted");
    here()->SetStops({}, watchpoints_);
    ASSIGN_OR_RETURN(LegEnd end,
                     here()->RunLeg({.limit = std::min(before, count() + kPollStates)}));
    std::optional<WatchHit> watch;
    if (end == LegEnd::kWatch) {
      watch = here()->watch_hit();
    } else if (!here()->unknown_imports().empty()) {
      ASSIGN_OR_RETURN(watch, ChangedImport(here()->unknown_imports()));
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
  if (!request.watchpoints[watch.index].condition) {
    return WatchHolds(request, watch.index, /*before=*/true);
  }
  RETURN_IF_ERROR(here()->MoveTo(watch.count, /*dense=*/false));
  const bool holds = WatchHolds(request, watch.index, /*before=*/true);
  RETURN_IF_ERROR(here()->Step());
  return holds;
}

}  // namespace hindsight
