// The program that a recorded process runs: its path, what is mapped, and what the recorder has
// changed in it: its vdso, and the area by which the process survives the recorder.
//
// Borrows all that it is given. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_PROCESS_IMAGE_H_
#define HINDSIGHT_RECORDER_EMULATE_PROCESS_IMAGE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "recorder/emulate/memory_sharing.h"
#include "recorder/log/process_log.h"
#include "recorder/log/thread_log.h"
#include "recorder/process/address_space.h"
#include "recorder/process/vdso.h"
#include "recorder/ptrace/commit_area.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/session/recording_session.h"

namespace hindsight {

class ProcessImage {
 public:
  ProcessImage(RecordingSession* session, ProcessLog* log, const MemorySharing* sharing);
  ProcessImage(const ProcessImage&) = delete;
  ProcessImage& operator=(const ProcessImage&) = delete;

  const std::string& program() const { return program_; }
  absl::Span<const uint64_t> auxv() const { return auxv_; }
  // What is mapped. Another one after an exec.
  std::shared_ptr<const AddressSpace> space() const { return space_; }
  // Where recording stops.
  const absl::flat_hash_set<uint64_t>& stop_places() const { return stop_places_; }
  // Where snapshots are taken, with the user's names.
  const std::map<uint64_t, std::string>& snapshot_places() const { return snapshot_places_; }
  // Both.
  const absl::flat_hash_set<uint64_t>& breakpoints() const { return breakpoints_; }

  // Looks at a new image: where it is, what is mapped. Patches its vdso. `tracee` may read its
  // memory.
  absl::Status Open(Tracee* tracee);
  // Another program, `program`, runs in the process: Open is to follow.
  void OnExec(std::string program);
  // After something that may have changed the memory map; logs a change at the thread's state.
  // `range`: nothing else has changed. Null `log`: a full keyframe follows.
  absl::Status ReloadMap(Tracee* tracee, ThreadLog* log, uint64_t count,
                         std::optional<MemoryRange> range = std::nullopt);
  // Logs the whole map as the one from there on.
  void LogWholeMap(ThreadLog* log, uint64_t count) { log_->LogWholeMap(*space_, log, count); }
  // Takes up changes in which of its shared mappings are mapped writable by processes that are not
  // recorded.
  void FollowForeignMappings();

  const std::vector<VdsoPatch>& vdso_patches() const { return vdso_patches_; }
  std::optional<uint64_t> vdso_loop() const { return FindVdsoLoop(vdso_patches_); }
  // Takes the patches of the vdso back, through `thread`. Returns the pages that have changed.
  absl::StatusOr<std::vector<uint64_t>> UnpatchVdso(pid_t thread);
  // By which the process survives the recorder; null: it need not, or cannot.
  CommitArea* commit_area() const { return commit_area_.get(); }

 private:
  void InstallCommitArea(pid_t thread);
  void FindPlaces(pid_t thread);
  MapPart ReadMap(Tracee* tracee, std::optional<MemoryRange> range) const;
  std::shared_ptr<AddressSpace> MakeSpace() const;

  RecordingSession* const session_;
  ProcessLog* const log_;
  const MemorySharing* const sharing_;
  std::string program_;  // its path
  std::vector<uint64_t> auxv_;
  std::shared_ptr<AddressSpace> space_;
  uint64_t foreign_version_ = 0;  // of the mappings that space_ has asked about
  absl::flat_hash_set<uint64_t> stop_places_, breakpoints_;
  std::map<uint64_t, std::string> snapshot_places_;
  std::vector<MapRegion> placed_code_;  // and files, as mapped when places were looked for
  std::vector<VdsoPatch> vdso_patches_;
  std::unique_ptr<CommitArea> commit_area_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_PROCESS_IMAGE_H_
