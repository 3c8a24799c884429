#include "recorder/translate/stream/stream_merger.h"

#include <algorithm>

#include "base/status_macros.h"

namespace hindsight {

void StreamMerger::Remove(const ThreadStream* stream) {
  rings_.erase(std::remove_if(rings_.begin(), rings_.end(),
                              [stream](const Ring& ring) { return ring.stream == stream; }),
               rings_.end());
}

// True if something was handed over: then one with a time stamp, or nothing, is next.
absl::StatusOr<bool> StreamMerger::HandOverUntimed(Ring* ring) {
  bool some = false;
  while (!ring->broken) {
    ring->broken = true;  // unless all goes well
    ASSIGN_OR_RETURN(const HsEntry* const entry, ring->reader->Peek());
    if (entry != nullptr && entry->time == 0) RETURN_IF_ERROR(ring->stream->Consume(entry));
    ring->broken = false;
    if (entry == nullptr || entry->time != 0) break;
    ring->reader->Done();
    some = true;
  }
  return some;
}

// The ring whose next entry is the earliest of all that there are and may come; null: none.
absl::StatusOr<StreamMerger::Ring*> StreamMerger::Earliest() {
  Ring* earliest = nullptr;
  uint64_t time = 0;
  std::vector<const RingReader*> empty;
  for (Ring& ring : rings_) {
    if (ring.broken) continue;
    ASSIGN_OR_RETURN(const HsEntry* const entry, ring.reader->Peek());
    if (entry == nullptr) {
      empty.push_back(ring.reader);
    } else if (earliest == nullptr || entry->time < time) {
      earliest = &ring;
      time = entry->time;
    }
  }
  // They have not begun to write anything since the entry was seen, so what comes is later.
  for (const RingReader* reader : empty) {
    if (!reader->IsQuiet()) return nullptr;
  }
  return earliest;
}

absl::StatusOr<bool> StreamMerger::Drain() {
  bool some = false;
  while (true) {
    for (Ring& ring : rings_) {
      ASSIGN_OR_RETURN(const bool handed, HandOverUntimed(&ring));
      some |= handed;
    }
    ASSIGN_OR_RETURN(Ring* const next, Earliest());
    if (next == nullptr) return some;
    ASSIGN_OR_RETURN(const HsEntry* const entry, next->reader->Peek());
    if (entry->time == 0) continue;  // came meanwhile
    next->broken = true;
    RETURN_IF_ERROR(next->stream->Consume(entry));
    next->broken = false;
    next->reader->Done();
    some = true;
  }
}

}  // namespace hindsight
