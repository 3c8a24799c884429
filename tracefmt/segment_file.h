// Reading one segment's file.

#ifndef HINDSIGHT_TRACEFMT_SEGMENT_FILE_H_
#define HINDSIGHT_TRACEFMT_SEGMENT_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracefmt/references/referenced_pages.h"
#include "tracefmt/storage/trace_directory.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// A segment that others refer to, as far as that concerns them. Immutable.
class ReferenceSegment {
 public:
  virtual ~ReferenceSegment() = default;
  virtual const ReferencePages& pages() const = 0;
  // Set where bytes of the file were damaged and dropped.
  virtual const absl::Status& damage() const = 0;
  // What it takes of memory, about.
  virtual uint64_t memory_bytes() const = 0;
};

// What the reader knows of the trace around a segment.
struct SegmentContext {
  std::string uuid;
  size_t module_count = 0;
  // The recorder may have died (or be busy) writing here: a file that just ends is no damage.
  bool may_be_cut_short = false;
  // The segment of the same thread with this number.
  std::function<absl::StatusOr<std::shared_ptr<const ReferenceSegment>>(uint64_t)> load_reference;
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

// Reads it for others that refer to it. Pages that it refers to itself are not there.
absl::StatusOr<std::shared_ptr<const ReferenceSegment>> ReadReferenceSegment(
    const TraceDirectory& files, const SegmentInfo& info, const SegmentContext& context);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_SEGMENT_FILE_H_
