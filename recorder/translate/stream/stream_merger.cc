#include "recorder/translate/stream/stream_merger.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"

namespace hindsight {

namespace {
constexpr uint64_t kNever = ~uint64_t{0};

// Ticks of the clock: some 100 ms.
constexpr uint64_t kPatience = 300'000'000;
// How long one Drain goes on: some 5 ms.
constexpr uint64_t kMostDraining = 15'000'000;
// Entries between two looks at the clock.
constexpr uint64_t kEntriesAtOnce = 256;

// After somebody has waited: some 100 ms.
constexpr uint64_t kHurry = 300'000'000;
// What all rings may have while somebody waits, and each.
constexpr uint64_t kMostBehind = 4 << 20, kMostBehindEach = 256 * 1024;

constexpr auto kIsLater = [](const auto& a, const auto& b) { return a.time > b.time; };
}  // namespace

absl::Status StreamMerger::Ring::Consume(const HsEntry* entry) {
  broken = true;  // unless all goes well
  RETURN_IF_ERROR(stream->Consume(entry, reader));
  broken = false;
  reader->Done();
  return absl::OkStatus();
}

// Null: it has none for the stream.
absl::StatusOr<const HsEntry*> StreamMerger::Ring::Peek() {
  if (broken || over) return nullptr;
  const absl::StatusOr<const HsEntry*> entry = reader->Peek();
  broken = !entry.ok();
  foreign = !broken && *entry != nullptr && !stream->Accepts(**entry);
  over = foreign && stream->begun();
  if (foreign) return nullptr;
  return entry;
}

// What has no time stamp, or one that is not later than `until`, up to an entry that brings another
// ring: what that has may be earlier than what follows. True if that was something.
absl::StatusOr<bool> StreamMerger::HandOver(Ring* ring, uint64_t until) {
  const size_t rings = rings_.size();
  uint64_t handed = 0;
  while (!ring->broken && !ring->stream->ended() && rings_.size() == rings) {
    ASSIGN_OR_RETURN(const HsEntry* const entry, ring->Peek());
    if (entry == nullptr || entry->time > until) break;
    RETURN_IF_ERROR(ring->Consume(entry));
    if (++handed % kEntriesAtOnce == 0 && IsLongEnough(now_())) break;
  }
  return handed != 0;
}

// Whether it may write an earlier entry than those that are there.
bool StreamMerger::HoldsUp(Ring* ring, uint64_t now) {
  if (ring->gone || ring->reader->IsQuiet()) {
    ring->busy_since = 0;
    return false;
  }
  if (ring->busy_since == 0) ring->busy_since = now;
  return now - ring->busy_since < kPatience;
}

void StreamMerger::Push(Head head) {
  heads_.push_back(head);
  std::push_heap(heads_.begin(), heads_.end(), kIsLater);
}

StreamMerger::Head StreamMerger::Pop() {
  std::pop_heap(heads_.begin(), heads_.end(), kIsLater);
  const Head head = heads_.back();
  heads_.pop_back();
  return head;
}

// Fills heads_. What may come is later than all heads up to this time.
absl::StatusOr<uint64_t> StreamMerger::LookAtAll() {
  // Read before a ring is seen to be empty: whoever writes there afterwards takes a later stamp.
  const uint64_t now = now_();
  heads_.clear();
  std::vector<Ring*> empty;
  for (Ring& ring : rings_) {
    ASSIGN_OR_RETURN(const HsEntry* const entry, ring.Peek());
    if (entry != nullptr) {
      Push({entry->time, &ring});
    } else if (ring.MayFill()) {
      empty.push_back(&ring);
    }
  }
  // The heads were there before the others are looked at: they may write only later ones than the
  // first of them.
  uint64_t limit = kNever;
  if (!empty.empty()) limit = heads_.empty() ? now : std::max(now, heads_.front().time);
  for (Ring* const ring : empty) {
    if (HoldsUp(ring, now)) {
      limit = std::min(limit, ring->past);
    } else {
      ring->past = now;
    }
  }
  return limit;
}

// After one look at all rings: with many, that is what takes long. True if that was something.
absl::StatusOr<bool> StreamMerger::TakeTurns() {
  ASSIGN_OR_RETURN(uint64_t limit, LookAtAll());
  const size_t rings = rings_.size();
  bool some = false;
  while (!heads_.empty() && heads_.front().time <= limit) {
    const Head head = Pop();
    const uint64_t others = heads_.empty() ? kNever : heads_.front().time;
    RETURN_IF_ERROR(HandOver(head.ring, std::min(others, limit)).status());
    some = true;
    if (head.ring->stream->ended()) {
      RemoveEnded();
      break;
    }
    const uint64_t now = now_();
    if (rings_.size() != rings || IsLongEnough(now)) break;
    head.ring->past = std::max(head.ring->past, head.time);
    ASSIGN_OR_RETURN(const HsEntry* const entry, head.ring->Peek());
    if (entry != nullptr) {
      Push({entry->time, head.ring});
    } else if (!head.ring->MayFill()) {
      break;
    } else {
      limit = std::min(limit, HoldsUp(head.ring, now) ? head.ring->past : now);
    }
  }
  return some;
}

void StreamMerger::RemoveEnded() {
  rings_.remove_if([](const Ring& ring) { return ring.stream->ended(); });
}

void StreamMerger::Remove(const ThreadStream* stream) {
  rings_.remove_if([=](const Ring& ring) { return ring.stream == stream; });
}

StreamMerger::Ring* StreamMerger::Find(const ThreadStream* stream) {
  for (Ring& ring : rings_) {
    if (ring.stream == stream) return &ring;
  }
  return nullptr;
}

bool StreamMerger::IsLongEnough(uint64_t now) const { return now - began_ >= kMostDraining; }

void StreamMerger::NoteGone(const ThreadStream* stream) {
  if (Ring* const ring = Find(stream)) ring->gone = true;
}

bool StreamMerger::IsDrained(const ThreadStream* stream) {
  Ring* const ring = Find(stream);
  if (ring == nullptr) return true;
  const absl::StatusOr<const HsEntry*> entry = ring->Peek();
  return !entry.ok() || *entry == nullptr;
}

void StreamMerger::ExpectWaiting() { hurry_until_ = now_() + kHurry; }

// Who waits, waits for all that is earlier. Otherwise there is no reason to hold anybody up.
void StreamMerger::SetMostBehind() {
  for (const Ring& ring : rings_) {
    if (ring.reader->IsAwaited()) hurry_until_ = began_ + kHurry;
  }
  const bool hurries = began_ < hurry_until_ && rings_.size() > 1;
  const uint64_t each = std::max(kMostBehind / std::max<size_t>(rings_.size(), 1), kMostBehindEach);
  for (const Ring& ring : rings_) ring.reader->SetMostBehind(hurries ? each : 0);
}

absl::StatusOr<bool> StreamMerger::Drain() {
  began_ = now_();
  SetMostBehind();
  bool some = false;
  for (Ring& ring : rings_) {
    ASSIGN_OR_RETURN(const bool handed, HandOver(&ring, /*until=*/0));
    some |= handed;
  }
  RemoveEnded();
  while (true) {
    ASSIGN_OR_RETURN(const bool turns, TakeTurns());
    some |= turns;
    if (!turns || IsLongEnough(now_())) return some;
  }
}

}  // namespace hindsight
