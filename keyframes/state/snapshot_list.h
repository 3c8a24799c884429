// The snapshots of a trace, as their events describe them.

#ifndef HINDSIGHT_KEYFRAMES_STATE_SNAPSHOT_LIST_H_
#define HINDSIGHT_KEYFRAMES_STATE_SNAPSHOT_LIST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// The manifest's engine of a trace that has snapshots and no segments.
inline constexpr char kSnapshotEngine[] = "snapshots";

struct SnapshotInfo {
  uint64_t number = 0;  // as users write it
  // What follows is from the event, and zero or empty where the trace has none for the snapshot.
  uint64_t time_ns = 0;  // since the recording began
  uint64_t trigger = 0;
  int64_t level = 0;
  uint64_t class_number = 0;
  uint64_t id = 0;
  uint64_t skew_ns = 0;  // between the stops of the first and the last thread
  uint64_t stop_ns = 0;  // how long the process stood still
  uint64_t stored_bytes = 0;
  uint64_t arrivals = 0;  // at places (--at), so many were counted by then
  int32_t thread = 0;     // that triggered it
  std::string label;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::shared_ptr<const FullKeyframe> keyframe;  // never null
};

// Whether the trace is a sequence of snapshots, and nothing else.
bool IsSnapshotTrace(const TraceReader& trace);

// Whether there are snapshots in it: it is such a sequence, or a recording in which some were
// taken.
bool HasSnapshots(const TraceReader& trace);

// Ascending numbers. Of a recording in which snapshots were taken those, from 1 in their order;
// else all full keyframes of the trace, by their own numbers.
std::vector<SnapshotInfo> ListSnapshots(const TraceReader& trace);

// The index of the one that users write as "3", "snapshot 3", "start" or "end". kInvalidArgument: a
// message for the user.
absl::StatusOr<size_t> FindSnapshot(const std::vector<SnapshotInfo>& snapshots,
                                    absl::string_view where);

// What the event says of snapshot `number`, without its keyframe.
SnapshotInfo DescribeSnapshot(const ProcessEvent& event, uint64_t number);

// "call", "point", "condition", "assertion", "exception", "signal", "timer", "function", "request";
// of others the number.
std::string TriggerName(uint64_t trigger);

// A line for users, without its newline: number, time, thread, trigger, level, class and id, label,
// attributes.
std::string SnapshotText(const SnapshotInfo& snapshot);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_SNAPSHOT_LIST_H_
