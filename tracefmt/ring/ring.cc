#include "tracefmt/ring/ring.h"

#include <algorithm>

#include "base/status_macros.h"

namespace hindsight {
namespace {

// Keyframes in what is kept; and generations of them.
constexpr uint64_t kKeyframes = 8, kGenerations = 4;
// What may be written between two looks: a block, or a few.
constexpr uint64_t kMostMargin = 1 << 20;

}  // namespace

uint64_t Ring::NowNs() const {
  return static_cast<uint64_t>((std::chrono::steady_clock::now() - start_).count());
}

absl::Status Ring::MakeRoom() { return TrimFor(keyframe_size_); }

void Ring::NoteKeyframe(uint64_t bytes, bool self_contained) {
  keyframe_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (self_contained) keyframe_size_ = bytes;
}

absl::Status Ring::Trim() {
  const uint64_t on_disk = bytes_on_disk_->load(std::memory_order_relaxed);
  if (on_disk > counted_) written_.fetch_add(on_disk - counted_, std::memory_order_relaxed);
  counted_ = on_disk;
  return TrimFor(0);
}

bool Ring::IsOver(uint64_t reserve, uint64_t oldest_end, uint64_t now) const {
  if (limits_.bytes != 0) {
    uint64_t margin = 0;
    for (const RingMember* member : members_) margin = std::max(margin, member->BytesToDrop());
    margin += std::min(limits_.bytes / 16, kMostMargin);
    return bytes_on_disk_->load(std::memory_order_relaxed) + reserve + margin > limits_.bytes;
  }
  if (limits_.ns != 0) return oldest_end + limits_.ns <= now;
  size_t keyframes = 0;
  for (const RingMember* member : members_) keyframes += member->keyframes();
  return keyframes > limits_.keyframes;
}

// Null: nobody can do without anything, or the limits do not ask for it.
RingMember* Ring::Oldest(uint64_t reserve, uint64_t now) const {
  RingMember* oldest = nullptr;
  uint64_t oldest_end = 0;
  for (RingMember* member : members_) {
    const std::optional<uint64_t> end = member->OldestEnd();
    if (!end.has_value() || (oldest != nullptr && *end >= oldest_end)) continue;
    oldest = member;
    oldest_end = *end;
  }
  return oldest != nullptr && IsOver(reserve, oldest_end, now) ? oldest : nullptr;
}

RingMember* Ring::Largest() const {
  RingMember *largest = nullptr, *ended = nullptr;
  uint64_t most = 0, of_ended = 0;
  for (RingMember* member : members_) {
    const uint64_t share = member->LargestShare();
    if (member->ended()) {
      if (ended == nullptr || member->OldestEnd() < ended->OldestEnd()) ended = member;
      of_ended += share;
    } else if (share > most) {
      largest = member;
      most = share;
    }
  }
  return of_ended > most ? ended : largest;
}

absl::Status Ring::TrimFor(uint64_t reserve) {
  const uint64_t now = NowNs();
  while (IsOver(reserve, 0, now)) {
    RingMember* const next = limits_.by_thread ? Largest() : Oldest(reserve, now);
    if (next == nullptr) break;
    RETURN_IF_ERROR(limits_.by_thread ? next->DropFromLargest() : next->DropOldest());
    counted_ = bytes_on_disk_->load(std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

bool RingPace::Wants() const {
  if (!ring_->on()) return false;
  const RingLimits& limits = ring_->limits();
  const uint64_t recorded = ring_->recorded();
  const uint64_t before = recorded_.load(std::memory_order_relaxed);
  if (recorded <= before) return false;
  if (limits.bytes != 0) return recorded - before >= limits.bytes / kKeyframes;
  if (limits.ns == 0) return false;
  return ring_->NowNs() - ns_.load(std::memory_order_relaxed) >= limits.ns / kKeyframes;
}

bool RingPace::BeginKeyframe() {
  const RingLimits& limits = ring_->limits();
  recorded_.store(ring_->recorded(), std::memory_order_relaxed);
  ns_.store(ring_->NowNs(), std::memory_order_relaxed);
  ++generation_size_;
  const bool over =
      limits.bytes != 0 ? ring_->written() - generation_written_ >= limits.bytes / kGenerations
      : limits.ns != 0  ? ring_->NowNs() - generation_ns_ >= limits.ns / kGenerations
                        : generation_size_ > std::max<uint64_t>(limits.keyframes / 2, 1);
  if (any_ && !over) return false;
  any_ = true;
  generation_written_ = ring_->written();
  generation_ns_ = ring_->NowNs();
  generation_size_ = 1;
  return true;
}

}  // namespace hindsight
