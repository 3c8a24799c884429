// The event kTrimmed: where a trace begins that has lost its oldest part, and what went. It is the
// first one of its trace.

#ifndef HINDSIGHT_TRACEFMT_RING_TRIMMED_EVENT_H_
#define HINDSIGHT_TRACEFMT_RING_TRIMMED_EVENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tracefmt/records.h"

namespace hindsight {

struct TrimmedEvent {
  uint64_t oldest_keyframe = 0;  // which the trace begins with
  // From this one on the trace has all threads, and memory. It is the oldest one, or, where each
  // thread keeps a part of its own, a later one.
  uint64_t whole_keyframe = 0;
  // The kernel or another process may write to memory at any time, from the whole one on.
  bool others_write = false;
  uint64_t segments = 0, keyframes = 0, events = 0;  // that went
  uint64_t time_ns = 0;                              // at which it begins, since the recording did
  // The threads' first segments; of those that are not named, all are there.
  std::vector<std::pair<int32_t, uint64_t>> first_segments;
  std::string program;  // that runs there; empty: the manifest's

  bool thinned() const { return whole_keyframe != oldest_keyframe; }
  bool operator==(const TrimmedEvent&) const = default;
};

ProcessEvent ToEvent(const TrimmedEvent& trimmed);
// Nothing if it is another event.
std::optional<TrimmedEvent> TrimmedFrom(const ProcessEvent& event);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RING_TRIMMED_EVENT_H_
