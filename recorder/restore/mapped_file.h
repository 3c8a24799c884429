// The files that a snapshot's process had mapped, as they are on this machine now.
//
// Borrows the trace. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_RESTORE_MAPPED_FILE_H_
#define HINDSIGHT_RECORDER_RESTORE_MAPPED_FILE_H_

#include <map>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "tracefmt/records.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class MappedFiles {
 public:
  explicit MappedFiles(const TraceReader& trace) : trace_(trace) {}
  MappedFiles(const MappedFiles&) = delete;
  MappedFiles& operator=(const MappedFiles&) = delete;

  // Whether the file of `region` is what it was: the same bytes, or, of one whose bytes the trace
  // does not have, the same file.
  bool Unchanged(const MapRegion& region);
  // What the trace has of it: empty if nothing.
  absl::Span<const uint8_t> StoredBytes(const MapRegion& region) const;

 private:
  bool Compare(const MapRegion& region) const;

  const TraceReader& trace_;
  std::map<std::pair<std::string, int32_t>, bool> unchanged_;  // path, module
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_MAPPED_FILE_H_
