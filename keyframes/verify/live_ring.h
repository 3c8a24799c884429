// What a live ring drops while it is verified is no damage.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_LIVE_RING_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_LIVE_RING_H_

#include "absl/status/status.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Whether `status` says that something is not there which may have been when the trace was opened.
inline bool HasGone(const TraceReader& trace, const absl::Status& status) {
  return absl::IsNotFound(status) && !trace.manifest().ring.empty() &&
         trace.manifest().state == TraceState::kRecording;
}

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_LIVE_RING_H_
