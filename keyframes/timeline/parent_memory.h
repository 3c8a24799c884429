// Memory that a recorded process was born with: what its parent had where it forked, read in the
// parent's recording. That is opened when it is asked for the first time.
//
// Borrows the trace. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_PARENT_MEMORY_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_PARENT_MEMORY_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/timeline/timeline_options.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class Timeline;

class ParentMemory {
 public:
  // `options`: for the parent's timeline.
  ParentMemory(const TraceReader* trace, const TimelineOptions& options);
  ~ParentMemory();
  ParentMemory(const ParentMemory&) = delete;
  ParentMemory& operator=(const ParentMemory&) = delete;

  // kNotFound where nothing is known, also because the parent was not recorded.
  absl::Status ReadPage(uint64_t page, absl::Span<uint8_t> out);
  // Timeline::IsUntouched, where the parent forked. False if that is not known.
  absl::StatusOr<bool> WasUntouched(uint64_t page);

 private:
  absl::Status Open();
  absl::StatusOr<Timeline*> Parent();

  const TraceReader* const trace_;
  const TimelineOptions options_;
  std::unique_ptr<TraceReader> parent_trace_;
  std::unique_ptr<Timeline> parent_;    // at the fork
  std::optional<absl::Status> opened_;  // unset: not tried yet
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_PARENT_MEMORY_H_
