// Writes the memory of a captured process into a full keyframe.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_COPIED_MEMORY_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_COPIED_MEMORY_H_

#include "absl/status/status.h"
#include "recorder/log/module_table.h"
#include "recorder/process/memory_map.h"
#include "recorder/snapshot/capture.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

// Adds all private memory of the capture's copy, whose map is `map`, and the pages of shared memory
// that were read; names what could not be (TraceWriter::DeclareComplete). Pages of files that equal
// the file are references. Requires: between BeginFullKeyframe and FinishFullKeyframe.
// `earlier`: the copy of which the keyframe before was written, which still stands; 0: there is
// none. What both have in common is not read.
absl::Status AddCopiedMemory(const Capture& capture, pid_t earlier, const MemoryMap& map,
                             const ModuleTable& modules, TraceWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_COPIED_MEMORY_H_
