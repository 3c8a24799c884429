#include "keyframes/timeline/thread_replay.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hindsight {

absl::Status ThreadReplay::Enter(uint64_t segment) {
  if (here() != nullptr && segment_number() == segment) return absl::OkStatus();
  ASSIGN_OR_RETURN(SegmentReplay * replay, pool_->Get(state_.thread(), segment));
  pool_->Give(replay, &holder_);
  pool_->Favour(replay);
  return absl::OkStatus();
}

absl::Status ThreadReplay::GoTo(uint64_t target, bool dense, const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin(&holder_);
  RETURN_IF_ERROR(Enter(state_.SegmentAt(target)));
  // States between a segment cut short and the next one were never recorded.
  if (target > here()->segment().end_count()) {
    return absl::OutOfRangeError(absl::StrCat("the recording has a gap at count ", target,
                                              " of thread ", state_.thread(), ", after ",
                                              here()->segment().end_count()));
  }
  if (target > count()) here()->LeaveCheckpoint();
  return here()->MoveTo(target, dense, interrupt);
}

absl::Status ThreadReplay::GoToOrBeforeTurn(uint64_t target, const std::atomic<bool>* interrupt) {
  if (here() != nullptr && count() == target && here()->sound()) return absl::OkStatus();
  return GoTo(target, /*dense=*/false, interrupt);
}

absl::Status ThreadReplay::GoBeforeTurn(uint64_t target, const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin(&holder_);
  RETURN_IF_ERROR(Enter(state_.SegmentAt(target)));
  if (target > here()->segment().end_count()) return GoTo(target, /*dense=*/false, interrupt);
  return here()->MoveToBeforeTurn(target, interrupt);
}

absl::Status ThreadReplay::GoToEndOf(uint64_t segment, const std::atomic<bool>* interrupt) {
  const ReplayPool::Pin pin(&holder_);
  RETURN_IF_ERROR(Enter(segment));
  return here()->MoveTo(here()->segment().end_count(), /*dense=*/false, interrupt);
}

absl::Status ThreadReplay::EnterSegment(uint64_t segment) {
  RETURN_IF_ERROR(Enter(segment));
  return here()->MoveTo(here()->segment().info().first_count, /*dense=*/false);
}

absl::StatusOr<std::optional<WatchHit>> ThreadReplay::ResolveWatch(
    const PlainStops& stops, const HitTrace& trace, uint64_t low, uint64_t before,
    const std::atomic<bool>* interrupt) {
  const uint64_t block = std::max(low, trace.cpu.last_watch_block_count);
  const uint64_t end = std::min(trace.cpu.last_watch_block_end, before);
  std::optional<WatchHit> last;
  RETURN_IF_ERROR(GoTo(block, /*dense=*/false, interrupt));
  here()->SetStops(stops.breakpoints, stops.watchpoints);
  while (count() < end) {
    RETURN_IF_ERROR(here()->Step());
    if (here()->watch_hit().has_value()) last = here()->watch_hit();
  }
  if (last.has_value() || block <= low) return last;
  // Nothing there after all: what was noted before it has been lost, so it is looked for again.
  RETURN_IF_ERROR(GoTo(low, /*dense=*/false, interrupt));
  here()->SetStops(stops.breakpoints, stops.watchpoints);
  HitTrace earlier;
  RETURN_IF_ERROR(here()->AdvanceNoting(block, &earlier, interrupt));
  if (earlier.cpu.watch_hits == 0) return std::nullopt;
  return ResolveWatch(stops, earlier, low, block, interrupt);
}

}  // namespace hindsight
