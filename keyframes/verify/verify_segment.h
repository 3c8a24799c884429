// Replays one segment for verification, and compares it on the way with what else the trace says of
// it: hashes of memory, events, and full keyframes.
//
// Borrows everything. Not copyable. One host thread.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_SEGMENT_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_SEGMENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "keyframes/replay/segment_replay.h"
#include "keyframes/verify/verify_claims.h"
#include "keyframes/verify/verify_counts.h"
#include "keyframes/verify/verify_writers.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// A page of a full keyframe that replay knew, too.
struct CheckedPage {
  uint64_t keyframe = 0;
  uint64_t page = 0;
  bool equal = false;  // else others may have written to it
};

class SegmentCheck {
 public:
  // Replays to a state, no later than the segment's end.
  using Advance = std::function<absl::Status(uint64_t count)>;

  // `replay` is in the segment's first state.
  SegmentCheck(const TraceReader* trace, const TraceClaims* claims, SegmentReplay* replay,
               Advance advance);
  SegmentCheck(const SegmentCheck&) = delete;
  SegmentCheck& operator=(const SegmentCheck&) = delete;

  // To the segment's end. kDataLoss: the first difference.
  absl::Status Run();
  const VerifyCounts& counts() const { return counts_; }
  // Of full keyframes. The same page may be listed twice: at the end of one segment, and at the
  // start of the next.
  const std::vector<CheckedPage>& checked_pages() const { return checked_pages_; }

 private:
  absl::Status CheckKeyframes();
  absl::Status CheckKeyframesAtEnd();
  absl::Status CheckNextSegment();
  absl::Status CheckState(const FullKeyframe& keyframe, const FullKeyframe::ThreadState& state);
  absl::Status CheckPage(const FullKeyframe& keyframe, uint64_t page, OtherWriters* others);
  absl::Status CheckRecord(const Record& record);
  absl::Status CheckMemory(const MemoryHash& memory);
  absl::Status CheckTransition(const Record& record, EventKind kind);
  absl::Status CheckEventsLeft() const;
  absl::Status Differs(uint64_t count, const std::string& what) const;

  const TraceReader* const trace_;
  const TraceClaims* const claims_;
  SegmentReplay* const replay_;
  const Advance advance_;
  absl::Span<const ProcessEvent* const> transitions_;  // events of the segment's own
  size_t next_event_ = 0;                              // in transitions_
  // The last list of used pages, if it is complete and not the segment's end: from there on memory
  // is shared.
  const Record* shared_ = nullptr;
  absl::flat_hash_set<uint64_t> left_;  // pages whose contents replay does not know
  VerifyCounts counts_;
  std::vector<CheckedPage> checked_pages_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_SEGMENT_H_
