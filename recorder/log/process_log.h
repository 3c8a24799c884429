// What goes into the trace of one process besides the records of its threads: its manifest, the
// files that it maps, its memory maps, its full keyframes, its end.
//
// Owns the trace's writer; threads log through it (ThreadLog), and must be gone before. Not
// copyable, not movable. One host thread.

#ifndef HINDSIGHT_RECORDER_LOG_PROCESS_LOG_H_
#define HINDSIGHT_RECORDER_LOG_PROCESS_LOG_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "isa/host_features.h"
#include "recorder/log/full_keyframe.h"
#include "recorder/log/module_table.h"
#include "recorder/log/thread_log.h"
#include "recorder/process/address_space.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

// Sums over threads whose recording is over.
struct ProcessTotals {
  uint64_t threads = 0;
  uint64_t instructions = 0;
  uint64_t segments = 0;
  uint64_t ordered_kernel_events = 0;
  uint64_t ordered_instructions = 0;
};

class ProcessLog {
 public:
  // `writer` is the trace, begun with `manifest`. The rest as ModuleTable has it.
  ProcessLog(std::unique_ptr<TraceWriter> writer, Manifest manifest, std::string root,
             uint64_t max_module_bytes, std::shared_ptr<OpenedModules> files);
  ProcessLog(const ProcessLog&) = delete;
  ProcessLog& operator=(const ProcessLog&) = delete;

  pid_t pid() const { return manifest_.pid; }
  TraceWriter* writer() const { return writer_.get(); }
  const Manifest& manifest() const { return manifest_; }
  const ModuleTable& modules() const { return modules_; }
  const ProcessTotals& totals() const { return totals_; }

  // Opens what RegisterFiles is going to store.
  void OpenFiles(absl::Span<const MapRegion> regions) { modules_.Open(regions); }
  // Stores the files of `regions` that are new and sets the regions' modules; reports stored files
  // that have been written to since. `whole`: nothing else is mapped any more.
  absl::Status RegisterFiles(absl::Span<MapRegion> regions, bool whole);

  // Memory maps. Readers have a whole map to begin with, and never many changes to apply to it:
  // now and then a change is logged as a whole map.
  //
  // `space` has changed in `part`, as of state `count` of the thread that `log` is of.
  void LogMapChange(const MapPart& part, const AddressSpace& space, ThreadLog* log, uint64_t count);
  void LogWholeMap(const AddressSpace& space, ThreadLog* log, uint64_t count);
  // A change of the map is not logged, because the full keyframe that follows has the map. The
  // keyframe may be lost, so the next change is logged as a whole map.
  void SkipMapChange() { logged_regions_ = kNoWholeMap; }

  // Whether the first full keyframe has the process's memory. A child's is its parent's at first,
  // in whose trace it is, unless that may be dropped.
  bool HasOwnMemoryAtBirth() const { return manifest_.parent_pid == 0 || writer_->has_ring(); }
  uint64_t full_keyframes() const { return full_keyframes_; }
  uint64_t snapshots() const { return snapshots_; }  // of them
  // Numbers it. `thread`, whose state is `count`, has the event. `with_memory` false: what memory
  // holds is known from elsewhere (WriteKeyframeAtBirth).
  absl::Status WriteFullKeyframe(KeyframeHead head, pid_t thread, uint64_t count,
                                 const MemoryMap& map, bool with_memory);

  // A thread's recording is over: adds its log and its executed instructions to the totals.
  void AddThread(const ThreadLog& log, uint64_t instructions, HostFeatures used);

  // The process has ended, as wait(2) reports it, in state `count` of its first thread.
  absl::Status LogExit(uint64_t count, int wait_status);
  // It has ended while it was not recorded.
  void NoteUnrecordedExit(int wait_status) { exit_status_ = wait_status; }
  // Its recording ends before the process does.
  void NoteEndReason(std::string reason) { end_reason_ = std::move(reason); }
  const std::string& end_reason() const { return end_reason_; }
  int exit_status() const { return exit_status_; }  // -1: not known

  // Writes the manifest with what is known at the end: the recording's last orderable event, and
  // when it was.
  absl::Status Finish(uint64_t end_sequence, uint64_t end_time_ns);

 private:
  static constexpr size_t kNoWholeMap = ~size_t{0};

  absl::Status LogChangedFiles();
  absl::Status LogSnapshot(const SnapshotReason& reason, uint64_t count, uint64_t stood_ns,
                           uint64_t bytes);

  const std::unique_ptr<TraceWriter> writer_;
  Manifest manifest_;
  ModuleTable modules_;
  // Regions in the changes logged since the whole map was; kNoWholeMap: it is still to be logged.
  size_t logged_regions_ = kNoWholeMap;
  uint64_t full_keyframes_ = 0;
  uint64_t snapshots_ = 0;
  ProcessTotals totals_;
  HostFeatures features_;
  int exit_status_ = -1;
  std::string end_reason_;  // empty: recorded to the process's end
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_PROCESS_LOG_H_
