#include "keyframes/thread_timeline.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// Segments kept replayed: the one stood in, its neighbour, and one more for going to and fro.
constexpr size_t kKeptSegments = 3;
// Of the memory for checkpoints, what each of those not stood in may keep.
constexpr uint64_t kShareOfOthers = 8;

}  // namespace

ThreadTimeline::ThreadTimeline(const TraceReader* trace, const ProcessState* process,
                               int32_t thread, const Options& options)
    : trace_(trace),
      process_(process),
      state_(process->thread(thread)),
      options_(options),
      memory_(trace, process, thread, options.view_cache_bytes),
      search_(trace, state_.thread(), options.search_threads) {}

absl::Status ThreadTimeline::Start() {
  return Move(state_.begin_count(), /*dense=*/false, nullptr);
}

// The replay of segment `number`, in whatever state it was left.
absl::StatusOr<SegmentReplay*> ThreadTimeline::ReplayOf(uint64_t number) {
  for (Kept& kept : kept_) {
    if (kept.number != number || kept.replay == nullptr) continue;
    kept.last_used = ++uses_;
    return kept.replay.get();
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                   trace_->LoadSegment(state_.thread(), number));
  Kept* place = nullptr;
  if (kept_.size() < kKeptSegments) {
    ASSIGN_OR_RETURN(auto replay, SegmentReplay::Create(trace_));
    replay->KeepCheckpoints(options_.checkpoint_bytes / kShareOfOthers);
    kept_.push_back({number, 0, std::move(replay)});
    place = &kept_.back();
  } else {
    for (Kept& kept : kept_) {
      if (kept.replay.get() == here_) continue;
      if (place == nullptr || kept.last_used < place->last_used) place = &kept;
    }
  }
  place->number = number;
  place->last_used = ++uses_;
  absl::Status status = place->replay->Load(std::move(segment));
  if (!status.ok()) {
    // A replay that could not even begin must not be taken for one that stands somewhere.
    std::erase_if(kept_, [&](const Kept& kept) { return kept.replay == place->replay; });
    return status;
  }
  return place->replay.get();
}

// Goes to `target`; on errors here_ may be in any state.
absl::Status ThreadTimeline::Move(uint64_t target, bool dense, const std::atomic<bool>* interrupt) {
  ASSIGN_OR_RETURN(SegmentReplay * replay, ReplayOf(state_.SegmentAt(target)));
  // States between a segment cut short and the next one were never recorded.
  if (target > replay->segment().end_count()) {
    return absl::OutOfRangeError(absl::StrCat("the recording has a gap at count ", target,
                                              ", after ", replay->segment().end_count()));
  }
  ShareCheckpointMemory(replay);
  RETURN_IF_ERROR(replay->MoveTo(target, dense, interrupt));
  here_ = replay;
  return absl::OkStatus();
}

// Most of it is for the segment that is moved in.
void ThreadTimeline::ShareCheckpointMemory(const SegmentReplay* active) {
  const uint64_t share = options_.checkpoint_bytes / kShareOfOthers;
  for (Kept& kept : kept_) {
    kept.replay->KeepCheckpoints(kept.replay.get() == active
                                     ? options_.checkpoint_bytes - share * (kKeptSegments - 1)
                                     : share);
  }
}

absl::Status ThreadTimeline::GoTo(uint64_t target, bool dense, const std::atomic<bool>* interrupt) {
  if (target < state_.begin_count() || target > state_.end_count()) {
    return absl::OutOfRangeError(absl::StrCat("count ", target, " is not in the recording (",
                                              state_.begin_count(), " to ", state_.end_count(),
                                              ")"));
  }
  SegmentReplay* const old_replay = here_;
  const uint64_t old_count = count();
  if (target > old_count) here_->TakeCheckpoint();
  absl::Status status = Move(target, dense, interrupt);
  if (status.ok()) return status;
  here_ = old_replay;
  if (!here_->MoveTo(old_count, /*dense=*/false).ok()) {
    // It was there before, so this is the way back to where it is known to be sound.
    (void)here_->MoveTo(here_->segment().info().first_count, /*dense=*/false);
  }
  return status;
}

// Goes to the first state of segment `number`.
absl::Status ThreadTimeline::EnterSegment(uint64_t number) {
  ASSIGN_OR_RETURN(SegmentReplay * replay, ReplayOf(number));
  ShareCheckpointMemory(replay);
  RETURN_IF_ERROR(replay->MoveTo(replay->segment().info().first_count, /*dense=*/false));
  here_ = replay;
  return absl::OkStatus();
}

// Where `here_` is at its end and another segment begins in that state or behind a gap: goes there.
absl::Status ThreadTimeline::EnterNextSegment() {
  return EnterSegment(here_->segment().info().number + 1);
}

absl::StatusOr<bool> ThreadTimeline::StepForward() {
  if (at_end()) return false;
  if (here_->at_end()) {  // before a gap
    RETURN_IF_ERROR(EnterNextSegment());
    return true;
  }
  const uint64_t before = count();
  absl::Status status = here_->Step();
  if (!status.ok()) {
    if (!here_->MoveTo(before, /*dense=*/false).ok()) {
      (void)here_->MoveTo(here_->segment().info().first_count, /*dense=*/false);
    }
    return status;
  }
  if (here_->at_end() && state_.SegmentAt(count()) != here_->segment().info().number) {
    RETURN_IF_ERROR(EnterNextSegment());
  }
  return true;
}

absl::StatusOr<bool> ThreadTimeline::StepBackward() {
  if (at_begin()) return false;
  uint64_t target = count() - 1;
  const SegmentInfo& info = here_->segment().info();
  if (count() == info.first_count) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Segment> previous,
                     trace_->LoadSegment(state_.thread(), state_.SegmentAt(target)));
    target = std::min(target, previous->end_count());
  }
  RETURN_IF_ERROR(GoTo(target, /*dense=*/true, nullptr));
  return true;
}

absl::StatusOr<size_t> ThreadTimeline::ReadMemory(uint64_t address, absl::Span<uint8_t> out) {
  return memory_.Read(*here_, address, out);
}

absl::StatusOr<RunStop> ThreadTimeline::Run(const RunRequest& request) {
  const uint64_t start = count();
  SetStops(request);
  absl::StatusOr<RunStop> stop;
  if (request.step) {
    stop = StepRange(request);
  } else if (request.direction == RunDirection::kForward) {
    stop = RunForward(request);
  } else {
    stop = RunBackward(request);
  }
  ClearStops();
  if (!stop.ok() && count() != start) (void)GoTo(start, /*dense=*/false, nullptr);
  return stop;
}

// The replays take the stops over where they are needed, not while moving.
void ThreadTimeline::SetStops(const RunRequest& request) {
  breakpoints_.clear();
  for (const PcStop& stop : request.breakpoints) breakpoints_.insert(stop.address);
  watchpoints_.clear();
  for (const DataStop& stop : request.watchpoints) {
    watchpoints_.push_back({stop.address, stop.length, stop.on_write, stop.on_read});
  }
}

void ThreadTimeline::ClearStops() {
  for (Kept& kept : kept_) kept.replay->SetStops(breakpoints_, {});
}

}  // namespace hindsight
