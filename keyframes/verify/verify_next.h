// What a segment begins with, where the one before it left off: of memory that the thread used
// directly (MappedRange) nobody else changes anything, so that both are the same. Whatever a
// recorder has not told of, a call's output say, shows there.
//
// Borrows everything. One thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_NEXT_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_NEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "keyframes/replay/segment_replay.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct NextSegmentCheck {
  uint64_t pages = 0;      // compared
  std::string difference;  // the first one; empty: none
};

// `replay` is at the end of its segment.
absl::StatusOr<NextSegmentCheck> CompareWithNextSegment(const TraceReader& trace,
                                                        const SegmentReplay& replay);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_NEXT_H_
