// Gives a stopped process the memory of a snapshot: its map and its contents.
//
//   PlaceForBootstrap --> Remote::Make --> RestoreMemory
//
// Each mapping lies where it was. Files that are unchanged are mapped again, of others the stored
// bytes are put into private memory. Memory that the process shared with others is its own now,
// shared with its children. The vdso is the kernel's, moved to where it was.

#ifndef HINDSIGHT_RECORDER_RESTORE_RESTORED_MEMORY_H_
#define HINDSIGHT_RECORDER_RESTORE_RESTORED_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/restore/remote.h"
#include "recorder/restore/restore_notes.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// The control file of libhindsight's points, as maps name it.
inline constexpr char kControlFileName[] = "/memfd:hindsight-control (deleted)";

// An address for Remote: free in the process as it is, and in the snapshot.
absl::StatusOr<uint64_t> PlaceForBootstrap(const FullKeyframe& keyframe, pid_t process);

// What is mapped in place of the control file that the process had.
struct ControlFile {
  std::string path;    // empty: memory in which nobody listens
  bool shared = true;  // with a listener; not if the process is recorded
};

// The first bytes of the control file of the snapshot's process; empty: it had none.
std::vector<uint8_t> ControlFileOf(const FullKeyframe& keyframe);

// kFailedPrecondition: this kernel's vdso is not that of the snapshot, or
// the kernel refuses a mapping; errors of the trace.
absl::Status RestoreMemory(const TraceReader& trace, const FullKeyframe& keyframe,
                           const ControlFile& control_file, Remote* remote, RestoreNotes* notes);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_RESTORED_MEMORY_H_
