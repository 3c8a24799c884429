// A trace of snapshots, written from states of a recorded process instead of a live one.
//
// What the recording does not know of memory is unknown in the snapshot. There is nothing of what
// the kernel keeps of a process: such a snapshot can be looked at, not run.
//
// Borrows `source`, which must outlive it. Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_CLI_STATES_REPLAYED_SNAPSHOTS_H_
#define HINDSIGHT_CLI_STATES_REPLAYED_SNAPSHOTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keyframes/inspect/process_view.h"
#include "tracefmt/trace_reader.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

// Why a snapshot was taken, as in its event.
struct ReplayedCause {
  int32_t thread = 0;    // current there; alive
  uint64_t time_ns = 0;  // since the recording began, about
  uint64_t trigger = 0;
  std::string text;  // label and attributes
};

class ReplayedSnapshots {
 public:
  // `directory` must not exist or be empty. `program` is the one that runs at the first snapshot.
  static absl::StatusOr<std::unique_ptr<ReplayedSnapshots>> Create(const std::string& directory,
                                                                   const TraceReader* source,
                                                                   const std::string& program);
  ReplayedSnapshots(const ReplayedSnapshots&) = delete;
  ReplayedSnapshots& operator=(const ReplayedSnapshots&) = delete;

  // Writes the process as `view` shows it. kNotFound: a thread's registers are not known.
  absl::Status Write(ProcessView* view, const ReplayedCause& cause);
  // Call once, at the end.
  absl::Status Finish();

  uint64_t snapshots() const { return snapshots_; }
  uint64_t bytes_written() const { return writer_->bytes_written(); }

 private:
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

  ReplayedSnapshots(std::unique_ptr<TraceWriter> writer, Manifest manifest,
                    const TraceReader* source)
      : writer_(std::move(writer)),
        manifest_(std::move(manifest)),
        source_(source),
        program_(manifest_.program) {}

  // The new trace's number for a module of the source; -1: its bytes are not there.
  absl::StatusOr<int32_t> ModuleOf(int32_t module);
  absl::StatusOr<std::vector<MapRegion>> Maps(ProcessView* view);
  absl::StatusOr<std::vector<TraceWriter::ThreadState>> States(ProcessView* view);
  // `of_source`: the region with the module's number there.
  absl::Status AddRegion(ProcessView* view, int32_t thread, const MapRegion& region,
                         const MapRegion& of_source, Ranges* unseen);
  absl::Status AddPage(uint64_t page, absl::Span<const uint8_t> bytes, const MapRegion& region,
                       absl::Span<const uint8_t> of_file);
  // What changed since the snapshot before: the program, names of threads.
  absl::Status AddNames(ProcessView* view);
  absl::Status AddEvents(const ReplayedCause& cause, uint64_t bytes_before);

  const std::unique_ptr<TraceWriter> writer_;
  Manifest manifest_;
  const TraceReader* source_;
  uint64_t snapshots_ = 0;
  std::map<int32_t, int32_t> modules_;
  std::string program_;
  std::map<int32_t, std::string> names_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_STATES_REPLAYED_SNAPSHOTS_H_
