// Writes the memory of a stopped process into a full keyframe.

#ifndef HINDSIGHT_RECORDER_LOG_FULL_KEYFRAME_H_
#define HINDSIGHT_RECORDER_LOG_FULL_KEYFRAME_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "recorder/log/module_table.h"
#include "recorder/log/snapshot_reason.h"
#include "recorder/process/memory_map.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

// What a full keyframe has besides memory. Every thread of `threads` has just begun a segment.
struct KeyframeHead {
  uint64_t number = 0;  // 1, 2, ...
  uint64_t sequence = 0;
  std::vector<TraceWriter::ThreadState> threads;
  std::vector<uint64_t> auxv;
  // How long the process has stood still for it by now, in ns; empty: that is not known.
  std::function<uint64_t()> stood;
  // It is a snapshot that somebody wanted.
  std::optional<SnapshotReason> snapshot;
};

// A whole full keyframe of stopped process `process`.
absl::Status WriteFullKeyframe(const KeyframeHead& head, pid_t process, const MemoryMap& map,
                               const ModuleTable& modules, TraceWriter* writer);
// The first one of a child that was forked: maps and registers. The contents of its memory are in
// its parent's trace.
absl::Status WriteKeyframeAtBirth(const KeyframeHead& head, const MemoryMap& map,
                                  TraceWriter* writer);

// Adds every page of the process's private memory that holds anything: pages of files by reference
// while they equal the file, pages never touched not at all (they are zero, or what the file
// holds), and says so (TraceWriter::DeclareComplete). Shared memory is left out: it may be a
// device. Requires: between BeginFullKeyframe and FinishFullKeyframe.
absl::Status AddProcessMemory(pid_t process, const MemoryMap& map, const ModuleTable& modules,
                              TraceWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_FULL_KEYFRAME_H_
