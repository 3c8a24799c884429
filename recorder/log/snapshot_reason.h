// Why a full keyframe of a recording is a snapshot: what its event says (docs/trace-format.md).

#ifndef HINDSIGHT_RECORDER_LOG_SNAPSHOT_REASON_H_
#define HINDSIGHT_RECORDER_LOG_SNAPSHOT_REASON_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace hindsight {

// Triggers besides those of libhindsight's points (1 to 5).
inline constexpr uint32_t kSignalTrigger = 6, kTimerTrigger = 7, kFunctionTrigger = 8,
                          kOutsideTrigger = 9;

struct SnapshotReason {
  uint32_t trigger = kOutsideTrigger;
  pid_t thread = 0;  // that asked; 0: none did
  int32_t level = 0;
  uint32_t class_number = 0;
  uint32_t id = 0;       // of a point; the signal's number
  std::string text;      // lines key=value
  uint64_t time_ns = 0;  // since the recording began
  uint64_t skew_ns = 0;  // at most between the stops of two threads
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_SNAPSHOT_REASON_H_
