#include "keyframes/timeline/thread_timeline.h"

#include <algorithm>

#include "base/status_macros.h"
#include "keyframes/timeline/first_stores.h"

namespace hindsight {

ThreadTimeline::ThreadTimeline(const ThreadState* state, const Context& context)
    : trace_(context.trace),
      replay_(state, context.pool),
      stops_(&replay_, context.host),
      forward_(context.trace, context.search, context.memory, &replay_, &stops_),
      backward_(context.trace, context.search, &replay_, &stops_) {}

absl::StatusOr<bool> ThreadTimeline::StepForward(uint64_t from, std::optional<WatchHit>* hit,
                                                 const std::atomic<bool>* interrupt) {
  if (from >= state().end_count()) return false;
  const ReplayPool::Pin pin = replay_.Hold();
  RETURN_IF_ERROR(replay_.GoTo(from, /*dense=*/false, interrupt));
  SegmentReplay* const here = replay_.here();
  if (here->at_end()) {  // before a gap
    RETURN_IF_ERROR(replay_.EnterNextSegment());
    return true;
  }
  stops_.Arm();
  RETURN_IF_ERROR(here->Step());
  if (here->watch_hit().has_value()) *hit = here->watch_hit();
  if (here->at_end() && state().SegmentAt(count()) != replay_.segment_number()) {
    RETURN_IF_ERROR(replay_.EnterNextSegment());
  }
  return true;
}

absl::StatusOr<bool> ThreadTimeline::StepBackward(uint64_t from, std::optional<WatchHit>* hit,
                                                  const std::atomic<bool>* interrupt) {
  if (from <= state().begin_count()) return false;
  const ReplayPool::Pin pin = replay_.Hold();
  uint64_t target = from - 1;
  const uint64_t number = state().SegmentAt(target);
  if (number != state().SegmentAt(from)) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Segment> previous,
                     trace_->LoadSegment(state().thread(), number));
    target = std::min(target, previous->end_count());
  }
  RETURN_IF_ERROR(replay_.GoTo(target, /*dense=*/true, interrupt));
  SegmentReplay* const here = replay_.here();
  if (stops_.plain().watchpoints.empty() || here->at_end()) return true;
  // Whether the transition touched a watched location shows when it is made again.
  here->TakeCheckpoint();
  stops_.Arm();
  RETURN_IF_ERROR(here->Step());
  if (here->watch_hit().has_value()) *hit = here->watch_hit();
  RETURN_IF_ERROR(here->MoveTo(target, /*dense=*/false));
  return true;
}

absl::StatusOr<PageKnowledge> ThreadTimeline::LastKnown(uint64_t page, const PageBits& bytes,
                                                        uint64_t since, LastWrites* writes,
                                                        const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin = replay_.Hold();
  absl::StatusOr<PageKnowledge> known =
      hindsight::LastKnown(&replay_, page, bytes, since, writes, interrupt);
  // A search that goes on need not translate the code again.
  replay_.here()->SetStops(stops_.plain().breakpoints, {});
  return known;
}

absl::Status ThreadTimeline::FindStores(uint64_t from, bool goes_on, absl::Span<StoredLine> lines,
                                        const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin = replay_.Hold();
  const absl::Status status = FindFirstStores(&replay_, from, goes_on, lines, interrupt);
  replay_.here()->SetStops(stops_.plain().breakpoints, {});
  return status;
}

}  // namespace hindsight
