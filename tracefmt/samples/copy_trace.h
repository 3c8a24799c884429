// Copies of a trace in which something was changed, but written as a recorder would have: every
// checksum is right.

#ifndef HINDSIGHT_TRACEFMT_SAMPLES_COPY_TRACE_H_
#define HINDSIGHT_TRACEFMT_SAMPLES_COPY_TRACE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/types/span.h"
#include "tracefmt/records.h"

namespace hindsight {

// Each is called with what is about to be written, in the order of the file. May be empty.
struct Alteration {
  // False: the record is left out. Bytes that spans point to must be kept until the copy is made.
  std::function<bool(int32_t thread, uint64_t segment, Record* record)> record;
  // False: the event is left out.
  std::function<bool(ProcessEvent* event)> event;
  std::function<void(uint64_t keyframe, uint64_t page, absl::Span<uint8_t> bytes)> page;
  // False: the segment is left out, with all after it.
  std::function<bool(int32_t thread, uint64_t segment)> segment;
};

// Copies the trace in `from`, of one process, to `to`, which must not exist. Aborts on errors.
void CopyTrace(const std::string& from, const std::string& to, const Alteration& alteration);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_SAMPLES_COPY_TRACE_H_
