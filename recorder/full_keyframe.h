// Writes the memory of a stopped process into a full keyframe.

#ifndef HINDSIGHT_RECORDER_FULL_KEYFRAME_H_
#define HINDSIGHT_RECORDER_FULL_KEYFRAME_H_

#include "absl/status/status.h"
#include "recorder/memory_map.h"
#include "recorder/module_table.h"
#include "recorder/tracee.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

// Adds every page of the process's private memory that holds anything: pages of files by reference
// while they equal the file, pages never touched not at all (they are zero, or what the file
// holds). Shared memory is left out: it may be a device.
// Requires: between BeginFullKeyframe and FinishFullKeyframe.
absl::Status AddProcessMemory(const Tracee& tracee, const MemoryMap& map,
                              const ModuleTable& modules, TraceWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_FULL_KEYFRAME_H_
