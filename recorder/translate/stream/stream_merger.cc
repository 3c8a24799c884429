#include "recorder/translate/stream/stream_merger.h"

#include <algorithm>
#include <vector>

#include "base/status_macros.h"

namespace hindsight {

namespace {
constexpr uint64_t kNever = ~uint64_t{0};
}  // namespace

absl::Status StreamMerger::Ring::Consume(const HsEntry* entry) {
  broken = true;  // unless all goes well
  RETURN_IF_ERROR(stream->Consume(entry));
  broken = false;
  reader->Done();
  return absl::OkStatus();
}

// Null: it has none.
absl::StatusOr<const HsEntry*> StreamMerger::Ring::Peek() {
  if (broken) return nullptr;
  absl::StatusOr<const HsEntry*> entry = reader->Peek();
  broken = !entry.ok();
  return entry;
}

// What has no time stamp, or one that is not later than `until`. True if that was something: then a
// later one, or nothing, is next.
absl::StatusOr<bool> StreamMerger::HandOver(Ring* ring, uint64_t until) {
  bool some = false;
  while (!ring->broken && !ring->stream->ended()) {
    ASSIGN_OR_RETURN(const HsEntry* const entry, ring->Peek());
    if (entry == nullptr || entry->time > until) break;
    RETURN_IF_ERROR(ring->Consume(entry));
    some = true;
  }
  return some;
}

absl::StatusOr<StreamMerger::Turn> StreamMerger::NextTurn(bool all) {
  // Read before a ring is seen to be empty: whoever writes there afterwards takes a later stamp.
  const uint64_t now = now_();
  Turn turn;
  uint64_t earliest = kNever, others = kNever;
  std::vector<const RingReader*> empty;
  for (Ring& ring : rings_) {
    ASSIGN_OR_RETURN(const HsEntry* const entry, ring.Peek());
    if (entry == nullptr) {
      if (!ring.broken) empty.push_back(ring.reader);
      continue;
    }
    const bool first = turn.ring == nullptr || entry->time < earliest;
    others = std::min(others, first ? earliest : entry->time);
    if (!first) continue;
    turn.ring = &ring;
    earliest = entry->time;
  }
  // It was there before the others are looked at: they may write only later ones.
  turn.until = std::max(earliest, empty.empty() || all ? others : std::min(others, now));
  for (const RingReader* reader : empty) {
    if (!all && !reader->IsQuiet()) return Turn{};
  }
  return turn;
}

void StreamMerger::RemoveEnded() {
  rings_.remove_if([](const Ring& ring) { return ring.stream->ended(); });
}

absl::StatusOr<bool> StreamMerger::Drain(bool all) {
  bool some = false;
  for (Ring& ring : rings_) {
    ASSIGN_OR_RETURN(const bool handed, HandOver(&ring, /*until=*/0));
    some |= handed;
  }
  while (true) {
    ASSIGN_OR_RETURN(const Turn turn, NextTurn(all));
    if (turn.ring == nullptr) return some;
    RETURN_IF_ERROR(HandOver(turn.ring, turn.until).status());
    some = true;
    RemoveEnded();
  }
}

}  // namespace hindsight
