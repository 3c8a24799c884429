#include "keyframes/timeline/backward_search.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

bool HasConditions(const RunRequest& request) {
  auto conditional = [](const auto& stop) { return stop.condition != nullptr || stop.thread != 0; };
  return std::any_of(request.breakpoints.begin(), request.breakpoints.end(), conditional) ||
         std::any_of(request.watchpoints.begin(), request.watchpoints.end(), conditional);
}

// Removes from `imports` those after `count`, and returns them.
std::vector<WatchedImport> TakeAfter(uint64_t count, std::vector<WatchedImport>* imports) {
  auto after =
      std::stable_partition(imports->begin(), imports->end(),
                            [count](const WatchedImport& import) { return import.count <= count; });
  std::vector<WatchedImport> taken(after, imports->end());
  imports->erase(after, imports->end());
  return taken;
}

}  // namespace

absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::LastHitBefore(
    const RunRequest& request, uint64_t floor, uint64_t low, uint64_t before) {
  const ReplayPool::Pin pin = replay_.Hold();
  searched_to_ = before;
  RETURN_IF_ERROR(replay_.Enter(replay_.state().SegmentAt(before)));
  const SegmentInfo info = replay_.here()->segment().info();
  ASSIGN_OR_RETURN(std::optional<Hit> hit, SearchWindows(request, std::max(floor, info.first_count),
                                                         std::max(low, info.first_count), before));
  if (hit.has_value() && hit->count < floor) hit.reset();
  if (hit.has_value() || low >= info.first_count) return hit;
  return SearchSegments(request, floor, replay_.state().SegmentAt(info.first_count - 1),
                        replay_.state().SegmentAt(low));
}

// Searches the segment stood in.
absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::SearchWindows(
    const RunRequest& request, uint64_t floor, uint64_t low, uint64_t before) {
  const uint64_t number = replay_.segment_number();
  const uint64_t first = replay_.here()->segment().info().first_count;
  size_t width = 1;  // of the window, in checkpoints
  bool at_first = false;
  for (uint64_t high = before; high > low || (high == first && !at_first);) {
    RETURN_IF_ERROR(replay_.Enter(number));
    stops_.Arm();
    const std::optional<uint64_t> start = replay_.here()->checkpoints().NthBefore(high, width);
    RETURN_IF_ERROR(replay_.here()->RewindTo(std::max(low, start.value_or(low))));
    // What lies between a checkpoint and `low` has to be replayed anyhow.
    if (replay_.count() < floor)
      RETURN_IF_ERROR(replay_.here()->AdvanceLeaving(floor, request.interrupt));
    const uint64_t window_low = replay_.count();
    HitTrace trace;
    at_first = window_low == first;
    if (at_first)
      trace.unknown = WatchedAtStart(*trace_, *replay_.here(), stops_.plain().watchpoints);
    RETURN_IF_ERROR(replay_.here()->AdvanceNoting(high, &trace, request.interrupt));
    ASSIGN_OR_RETURN(std::optional<Hit> hit, Accept(request, trace, window_low, high));
    if (hit.has_value()) return hit;
    searched_to_ = high = window_low;
    width *= 2;
    if (at_first) break;
  }
  return std::nullopt;
}

// Searches the segments from `newest` back to `oldest`.
absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::SearchSegments(
    const RunRequest& request, uint64_t floor, uint64_t newest, uint64_t oldest) {
  std::optional<Hit> found;
  // Watched pages that segments searched began with; what they were before, older ones say.
  std::vector<WatchedImport> pending;
  auto take = [&](const SegmentHits& hits) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(found, TakeSegment(request, hits, floor, &pending));
    if (!found.has_value()) searched_to_ = std::max(floor, hits.first_count);
    return found.has_value();
  };
  const SegmentSearch::Request search = {.thread = replay_.state().thread(),
                                         .from = newest,
                                         .to = oldest,
                                         .breakpoints = &stops_.plain().breakpoints,
                                         .watchpoints = &stops_.plain().watchpoints,
                                         .interrupt = request.interrupt};
  RETURN_IF_ERROR(search_->Run(search, take));
  if (!found.has_value()) {
    ASSIGN_OR_RETURN(found, ComparePendingWithMemory(request, &pending));
  }
  if (!found.has_value() || found->count < floor) return std::nullopt;
  return *std::move(found);
}

absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::TakeSegment(
    const RunRequest& request, const SegmentHits& hits, uint64_t floor,
    std::vector<WatchedImport>* pending) {
  ASSIGN_OR_RETURN(std::optional<Hit> found, ComparePending(request, hits.endings, pending));
  if (found.has_value()) return found;
  if (hits.trace.any()) {
    ASSIGN_OR_RETURN(found, ComparePendingWithMemory(request, pending));
    if (found.has_value()) return found;
    const uint64_t low = std::max(floor, hits.first_count);
    ASSIGN_OR_RETURN(found, Accept(request, hits.trace, low, hits.end_count));
    if (found.has_value() && found->count < floor) found.reset();
    return found;
  }
  pending->insert(pending->end(), hits.trace.unknown.begin(), hits.trace.unknown.end());
  // What came in after a full keyframe is compared with that, not with older segments.
  if (KeyframeAtStart(*trace_, replay_.state().thread(), hits.number) != nullptr) {
    std::vector<WatchedImport> after = TakeAfter(hits.first_count, pending);
    ASSIGN_OR_RETURN(found, ComparePendingWithMemory(request, &after));
  }
  return found;
}

// Compares pages that later segments began with to the ends of an older one.
absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::ComparePending(
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
    const Watchpoint& watched = stops_.plain().watchpoints[import.index];
    const std::optional<uint64_t> new_byte = FirstNewByte(import, watched, ending->bytes);
    if (!new_byte.has_value()) continue;
    if (import.keyframe != 0 || stops_.views_may_be_old()) {  // another may have known better
      std::vector<WatchedImport> one = {import};
      ASSIGN_OR_RETURN(std::optional<Hit> found, ComparePendingWithMemory(request, &one));
      if (found.has_value()) return found;
      continue;
    }
    const uint64_t offset = WatchedIn(import.page, watched).offset + *new_byte;
    ASSIGN_OR_RETURN(const std::optional<Hit> hit,
                     AcceptHit(request, {import.count - 1, import.index, import.page + offset}));
    if (hit.has_value()) return hit;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::ComparePendingWithMemory(
    const RunRequest& request, std::vector<WatchedImport>* pending) {
  for (const WatchedImport& import : std::exchange(*pending, {})) {
    ASSIGN_OR_RETURN(std::optional<WatchHit> change, stops_.ChangedImport({import}));
    if (!change.has_value()) continue;
    ASSIGN_OR_RETURN(const std::optional<Hit> hit, AcceptHit(request, *change));
    if (hit.has_value()) return hit;
  }
  return std::nullopt;
}

// The last hit that `trace` knows of and whose condition holds, noted in states [low, before) of
// one segment. Watchpoints and breakpoints are tried one after the other, each without the cost
// of the others.
absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::Accept(const RunRequest& request,
                                                                          const HitTrace& trace,
                                                                          uint64_t low,
                                                                          uint64_t before) {
  ASSIGN_OR_RETURN(std::optional<Hit> watch, AcceptWatch(request, trace, low, before));
  // Where the writing instruction has a breakpoint, too, the watchpoint says more.
  if (watch.has_value()) low = std::max(low, watch->count + 1);
  if (trace.cpu.breakpoint_hits == 0 || trace.cpu.last_breakpoint_count < low) return watch;
  ASSIGN_OR_RETURN(std::optional<Hit> breakpoint,
                   AcceptBreakpoint(request, low, trace.cpu.last_breakpoint_count));
  return breakpoint.has_value() ? breakpoint : watch;
}

absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::AcceptWatch(
    const RunRequest& request, const HitTrace& trace, uint64_t low, uint64_t before) {
  ASSIGN_OR_RETURN(std::optional<WatchHit> last, LastWatch(trace, low, before, request.interrupt));
  if (!last.has_value()) return std::nullopt;
  ASSIGN_OR_RETURN(const std::optional<Hit> hit, AcceptHit(request, *last));
  if (hit.has_value()) return hit;
  ASSIGN_OR_RETURN(std::optional<Hit> earlier, ScanWatches(request, low, last->count));
  if (earlier.has_value()) return earlier;
  // What the segment began with changed before it.
  std::vector<WatchedImport> at_start = trace.unknown;
  (void)TakeAfter(low, &at_start);
  return ComparePendingWithMemory(request, &at_start);
}

// The last watched access that `trace` knows of.
absl::StatusOr<std::optional<WatchHit>> BackwardSearch::LastWatch(
    const HitTrace& trace, uint64_t low, uint64_t before, const std::atomic<bool>* interrupt) {
  std::optional<WatchHit> best = trace.import;
  if (trace.cpu.watch_hits > 0 &&
      (!best.has_value() || trace.cpu.last_watch_block_end > best->count)) {
    ASSIGN_OR_RETURN(std::optional<WatchHit> watch,
                     replay_.ResolveWatch(stops_.plain(), trace, low, before, interrupt));
    if (watch.has_value() && (!best.has_value() || watch->count >= best->count)) best = watch;
  }
  std::vector<WatchedImport> imports = trace.unknown;
  std::stable_sort(
      imports.begin(), imports.end(),
      [](const WatchedImport& a, const WatchedImport& b) { return a.count > b.count; });
  for (const WatchedImport& import : imports) {
    if (best.has_value() && import.count <= best->count) break;
    ASSIGN_OR_RETURN(std::optional<WatchHit> change, stops_.ChangedImport({import}));
    if (change.has_value()) return change;
  }
  return best;
}

// Goes to the access, if there is anything to be asked, and asks whether it is a stop.
absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::AcceptHit(
    const RunRequest& request, const WatchHit& watch) {
  std::optional<WatchHit> accepted = watch;
  if (HasConditions(request) || !watch.silent.empty()) {
    RETURN_IF_ERROR(replay_.GoTo(watch.count, /*dense=*/false, request.interrupt));
    ASSIGN_OR_RETURN(accepted, stops_.AcceptWatch(request, watch, /*before=*/true));
  }
  if (!accepted.has_value()) return std::nullopt;
  return Hit{.count = watch.count, .is_watch = true, .watch = *accepted};
}

// The last breakpoint in [low, last] of one segment whose condition holds; there is one at `last`.
absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::AcceptBreakpoint(
    const RunRequest& request, uint64_t low, uint64_t last) {
  if (!HasConditions(request)) return Hit{.count = last};
  RETURN_IF_ERROR(replay_.GoTo(last, /*dense=*/false, request.interrupt));
  if (std::optional<size_t> index = stops_.MatchingBreakpoint(request)) {
    return Hit{.count = last, .breakpoint = index};
  }
  std::optional<Hit> found;
  if (last <= low) return found;
  RETURN_IF_ERROR(replay_.GoTo(low, /*dense=*/false, request.interrupt));
  std::optional<uint64_t> leave;
  while (replay_.count() < last) {
    if (request.interrupted()) return absl::CancelledError("interrupted");
    replay_.here()->SetStops(stops_.plain().breakpoints, {});
    ASSIGN_OR_RETURN(LegEnd end,
                     replay_.here()->RunLeg({.limit = std::min(last, replay_.count() + kPollStates),
                                             .leave_first_breakpoint = leave == replay_.count()}));
    if (end != LegEnd::kBreakpoint) continue;
    leave = replay_.count();
    std::optional<size_t> index = stops_.MatchingBreakpoint(request);
    if (index.has_value()) found = Hit{.count = replay_.count(), .breakpoint = index};
  }
  return found;
}

// Stops at every watched access in [low, before) of one segment; the last whose condition holds.
absl::StatusOr<std::optional<BackwardSearch::Hit>> BackwardSearch::ScanWatches(
    const RunRequest& request, uint64_t low, uint64_t before) {
  std::optional<Hit> last;
  if (before <= low) return last;
  RETURN_IF_ERROR(replay_.GoTo(low, /*dense=*/false, request.interrupt));
  while (replay_.count() < before) {
    if (request.interrupted()) return absl::CancelledError("interrupted");
    stops_.ArmWatchpoints();
    ASSIGN_OR_RETURN(LegEnd end, replay_.here()->RunLeg(
                                     {.limit = std::min(before, replay_.count() + kPollStates)}));
    std::optional<WatchHit> watch;
    if (end == LegEnd::kWatch) {
      watch = replay_.here()->watch_hit();
    } else if (!replay_.here()->unknown_imports().empty()) {
      ASSIGN_OR_RETURN(watch, stops_.ChangedImport(replay_.here()->unknown_imports()));
    }
    if (!watch.has_value()) continue;
    ASSIGN_OR_RETURN(watch, AcceptBeforeTransition(request, *watch));
    if (watch.has_value()) last = Hit{.count = watch->count, .is_watch = true, .watch = *watch};
  }
  return last;
}

// Evaluates the condition in the state before the transition just made.
absl::StatusOr<std::optional<WatchHit>> BackwardSearch::AcceptBeforeTransition(
    const RunRequest& request, const WatchHit& watch) {
  const bool asks = watch.silent.empty() ? request.watchpoints[watch.index].condition != nullptr
                                         : HasConditions(request);
  if (!asks) return stops_.AcceptWatch(request, watch, /*before=*/true);
  RETURN_IF_ERROR(replay_.here()->MoveTo(watch.count, /*dense=*/false));
  ASSIGN_OR_RETURN(std::optional<WatchHit> accepted,
                   stops_.AcceptWatch(request, watch, /*before=*/true));
  RETURN_IF_ERROR(replay_.here()->Step());
  return accepted;
}

RunStop BackwardSearch::DescribeHit(const RunRequest& request, const Hit& hit) const {
  if (hit.is_watch) return stops_.WatchStop(request, hit.watch);
  RunStop stop = {.kind = StopKind::kBreakpoint, .thread = replay_.state().thread()};
  const uint64_t pc = replay_.here()->pc();
  auto it = std::find_if(request.breakpoints.begin(), request.breakpoints.end(),
                         [pc](const BreakpointSpec& candidate) { return candidate.address == pc; });
  stop.index = hit.breakpoint.value_or(static_cast<size_t>(it - request.breakpoints.begin()));
  return stop;
}

}  // namespace hindsight
