// What the checks of single segments found, put together: differences, counts, and what must be
// compared across segments when all are done.
//
// Several host threads may add at once.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_FINDINGS_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_FINDINGS_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "keyframes/verify/verify_claims.h"
#include "keyframes/verify/verify_counts.h"
#include "keyframes/verify/verify_segment.h"
#include "keyframes/verify/verify_totals.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class VerifyFindings {
 public:
  void AddSegment(const Segment& segment, const SegmentCheck& check);
  // A segment differs from the recording at state `count`.
  void AddDifference(uint64_t count, absl::Status status);

  uint64_t segments_failed() const;
  // The difference at the least count; OK if there is none.
  absl::Status FirstDifference() const;
  // A full keyframe's page that several segments checked is equal if it was to one of them.
  VerifyCounts counts() const;
  // By thread. Requires of these: nothing is added any more.
  const std::map<int32_t, ThreadContents>& contents() const { return contents_; }
  const std::map<int32_t, ThreadEnd>& ends() const { return ends_; }

 private:
  struct Difference {
    uint64_t count = 0;
    absl::Status status;
  };

  mutable std::mutex mutex_;
  std::vector<Difference> differences_;
  VerifyCounts counts_;
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, bool> keyframe_pages_;  // equal
  std::map<int32_t, ThreadContents> contents_;
  std::map<int32_t, ThreadEnd> ends_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_FINDINGS_H_
