// All processes of a recording, summarized, as a tree.

#ifndef HINDSIGHT_CLI_INFO_RECORDING_INFO_H_
#define HINDSIGHT_CLI_INFO_RECORDING_INFO_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/info/trace_summary.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct ProcessEntry {
  ProcessInfo process;
  std::string id;       // as `-p` takes it
  std::string parent;   // the id of the process that created it; empty: not recorded
  size_t depth = 0;     // below the recording's first process
  absl::Status status;  // not OK: its trace cannot be opened, and the fields below are empty
  TraceSummary summary;
  uint64_t bytes = 0;
};

struct RecordingInfo {
  std::vector<ProcessEntry> processes;  // each after its parent
  std::unique_ptr<TraceReader> first;   // the trace of processes[0]
  std::vector<std::string> warnings;

  uint64_t threads() const;
  uint64_t instructions() const;
  uint64_t bytes() const;
};

// Of the recording, or of a child process in it, in `directory`. `positions`: see SummaryOptions.
// An error only where the first trace cannot be opened.
absl::StatusOr<RecordingInfo> ReadRecording(const TraceDirectory& directory, bool positions);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_INFO_RECORDING_INFO_H_
