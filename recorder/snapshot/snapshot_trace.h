// The trace that snapshots are written to: a trace without segments (docs/trace-format.md).
//
// Owns the trace's writer. Not copyable, not movable. One host thread, which need not be the one
// that captures.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_SNAPSHOT_TRACE_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_SNAPSHOT_TRACE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/log/module_table.h"
#include "recorder/snapshot/capture.h"
#include "tracefmt/manifest.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

class SnapshotTrace {
 public:
  // `root`: as ModuleTable has it. `ring`: as TraceWriter::Create.
  static absl::StatusOr<std::unique_ptr<SnapshotTrace>> Create(const std::string& directory,
                                                               Manifest manifest, std::string root,
                                                               const RingLimits& ring = {});
  SnapshotTrace(const SnapshotTrace&) = delete;
  SnapshotTrace& operator=(const SnapshotTrace&) = delete;

  // Writes the next snapshot; once it returns, readers see it, whoever is killed.
  // `keep`: the capture's copy of the process is kept until the next one has been written, which
  // then costs what has changed between them.
  absl::Status Write(Capture capture, bool keep);
  // The end. `wait_status`: of the process, -1 if it runs on; then `reason` says why this ends.
  absl::Status Finish(int wait_status, const std::string& reason, uint64_t time_ns);

  uint64_t snapshots() const { return snapshots_; }
  uint64_t bytes_written() const { return writer_->bytes_written(); }

 private:
  SnapshotTrace(std::unique_ptr<TraceWriter> writer, Manifest manifest, std::string root);
  absl::Status WriteKeyframe(const Capture& capture, uint64_t number);

  const std::unique_ptr<TraceWriter> writer_;
  Manifest manifest_;
  ModuleTable modules_;
  uint64_t snapshots_ = 0;
  std::unique_ptr<ProcessCopy> last_copy_;  // of the last keyframe; null: not kept
};

// What a manifest says of `process`, which runs its program already.
Manifest SnapshotManifest(pid_t process, bool attached);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_SNAPSHOT_TRACE_H_
