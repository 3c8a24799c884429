#include "keyframes/replay/replay_pool.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace hindsight {
namespace {

// Of the memory for checkpoints, the others share at most a half.
constexpr uint64_t kLeastShares = 8;
// Where the segments kept take more than this, no further one is kept beside them.
constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 30;

}  // namespace

absl::StatusOr<SegmentReplay*> ReplayPool::Get(int32_t thread, uint64_t number) {
  for (Kept& kept : kept_) {
    if (kept.thread != thread || kept.number != number) continue;
    kept.last_used = ++uses_;
    return kept.replay.get();
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment, trace_->LoadSegment(thread, number));
  ASSIGN_OR_RETURN(Kept * place, Place());
  place->thread = thread;
  place->number = number;
  place->last_used = ++uses_;
  place->replay->ClearWatchpoints();
  absl::Status status = place->replay->Load(std::move(segment));
  if (!status.ok()) {
    // A replay that could not even begin must not be taken for one that is in a state.
    states_of_dropped_ += place->replay->states_replayed();
    kept_.erase(kept_.begin() + (place - kept_.data()));
    return status;
  }
  return place->replay.get();
}

// Room for one more, taken from the one least recently used.
absl::StatusOr<ReplayPool::Kept*> ReplayPool::Place() {
  Kept* place = nullptr;
  const bool room = kept_.size() < max_replays_ && SegmentBytes() <= kMaxSegmentBytes;
  for (Kept& kept : kept_) {
    if (room) break;
    if (kept.holder != nullptr && kept.holder->pins > 0) continue;
    if (place == nullptr || kept.last_used < place->last_used) place = &kept;
  }
  if (place == nullptr) {
    ASSIGN_OR_RETURN(auto replay, SegmentReplay::Create(trace_));
    replay->KeepCheckpoints(ShareOfOthers());
    kept_.push_back({.replay = std::move(replay)});
    return &kept_.back();
  }
  if (place->holder != nullptr) place->holder->replay = nullptr;
  place->holder = nullptr;
  return place;
}

void ReplayPool::Give(SegmentReplay* replay, Holder* holder) {
  for (Kept& kept : kept_) {
    if (kept.replay.get() == replay) {
      if (kept.holder != nullptr && kept.holder != holder) kept.holder->replay = nullptr;
      kept.holder = holder;
    } else if (kept.holder == holder) {
      kept.holder = nullptr;
    }
  }
  holder->replay = replay;
}

uint64_t ReplayPool::ShareOfOthers() const {
  return checkpoint_bytes_ / std::max<uint64_t>(kLeastShares, 2 * max_replays_);
}

void ReplayPool::Favour(const SegmentReplay* active) {
  if (favoured_ == active) return;
  favoured_ = active;
  const uint64_t share = ShareOfOthers();
  for (Kept& kept : kept_) {
    kept.replay->KeepCheckpoints(
        kept.replay.get() == active ? checkpoint_bytes_ - share * (max_replays_ - 1) : share);
  }
}

void ReplayPool::ClearStops() {
  for (Kept& kept : kept_) kept.replay->ClearWatchpoints();
}

uint64_t ReplayPool::checkpoints() const {
  uint64_t checkpoints = 0;
  for (const Kept& kept : kept_) checkpoints += kept.replay->checkpoints().size();
  return checkpoints;
}

uint64_t ReplayPool::checkpoint_bytes() const {
  uint64_t bytes = 0;
  for (const Kept& kept : kept_) bytes += kept.replay->checkpoints().bytes();
  return bytes;
}

uint64_t ReplayPool::SegmentBytes() const {
  uint64_t bytes = 0;
  for (const Kept& kept : kept_) bytes += kept.replay->segment().memory_bytes();
  return bytes;
}

uint64_t ReplayPool::StatesOfKept() const {
  uint64_t states = 0;
  for (const Kept& kept : kept_) states += kept.replay->states_replayed();
  return states;
}

}  // namespace hindsight
