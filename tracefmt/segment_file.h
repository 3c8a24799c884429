// Reading one segment's file.

#ifndef HINDSIGHT_TRACEFMT_SEGMENT_FILE_H_
#define HINDSIGHT_TRACEFMT_SEGMENT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tracefmt/storage/trace_directory.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// What the reader knows of the trace around a segment.
struct SegmentContext {
  std::string uuid;
  size_t module_count = 0;
  // The recorder may have died (or be busy) writing here: a file that just ends is no damage.
  bool may_be_cut_short = false;
};

// Reads the header only of segment `number` of `thread`, which must be of the trace `uuid`.
// kOutOfRange if the file ends inside the header.
absl::StatusOr<SegmentInfo> ReadSegmentInfo(const TraceDirectory& files, const std::string& uuid,
                                            int32_t thread, uint64_t number);

// Offset at which the file ends inside a block; kNotFound if it does not.
absl::StatusOr<uint64_t> FindTornBlock(const TraceDirectory& files, const SegmentInfo& info);

// Reads all of it. Damage after the header is reported by Segment::damage().
absl::StatusOr<std::shared_ptr<const Segment>> ReadSegment(const TraceDirectory& files,
                                                           const SegmentInfo& info,
                                                           const SegmentContext& context);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_SEGMENT_FILE_H_
