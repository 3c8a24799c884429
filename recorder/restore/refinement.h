// Runs a snapshot's process again, with snapshots taken more finely, up to where a later snapshot
// of the same trace was taken, and compares what is there with what was there then.

#ifndef HINDSIGHT_RECORDER_RESTORE_REFINEMENT_H_
#define HINDSIGHT_RECORDER_RESTORE_REFINEMENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "isa/registers.h"
#include "recorder/restore/restore_notes.h"
#include "recorder/restore/restored_process.h"
#include "recorder/restore/target_check.h"
#include "recorder/snapshot/snapshot_session.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct MemoryChange {
  uint64_t address = 0;
  std::vector<uint8_t> bytes;
};
struct RegistersChange {
  int32_t thread = 0;
  RegisterFile registers;
};

struct RefineOptions {
  // Directory, configuration and the like of the new trace.
  SnapshotOptions snapshots;
  std::optional<RefineTarget> target;  // none: to the program's end
  std::vector<ExpectedBytes> expected;
  std::vector<MemoryChange> memory;  // made before it runs
  std::vector<RegistersChange> registers;
  bool force = false;  // runs it even if something of it is lost
  // The control file of the snapshot's process: what was counted in it counts on. May be empty.
  std::vector<uint8_t> earlier_control;
};

struct RefineResult {
  RestoreNotes notes;
  SnapshotResult snapshots;
  uint64_t instructions = 0;  // of a full recording; then of `snapshots` only what it has
  bool reached = false;       // the target
  std::vector<BytesDifference> differences;
};

// The process of the snapshot with the edits of `options`, before its next instruction. Errors: as
// of RestoredProcess::Make; kFailedPrecondition, with a text of several lines, if something would
// be lost and `force` is not set; kInvalidArgument, kNotFound: an edit is not possible.
absl::StatusOr<std::unique_ptr<RestoredProcess>> RestoreEdited(const TraceReader& trace,
                                                               const FullKeyframe& keyframe,
                                                               const RefineOptions& options,
                                                               const ControlFile& control_file);

// One try. Errors: as of RestoreEdited and of TakeSnapshots. No process is left.
// Requires: the calling thread is the only one.
absl::StatusOr<RefineResult> Refine(const TraceReader& trace, const FullKeyframe& keyframe,
                                    const RefineOptions& options);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_REFINEMENT_H_
