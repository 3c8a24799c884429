// A trace, one file of which a fuzz target's input replaces.
//
//   NAME '\0'   which file ("threads/1/0.seg"); any other name selects some file, too
//   byte        bit 0 clear: the rest is the file
//               bit 0 set: the rest is a list of messages, each a block kind (1 byte; bit 7 adds
//               0x8000), a length (3 bytes, little-endian) and that many bytes; the file is made of
//               them with headers and checksums that are right, so that mutations get past these
//
// Not copyable. One thread at a time.

#ifndef HINDSIGHT_TRACEFMT_FUZZ_FUZZED_TRACE_H_
#define HINDSIGHT_TRACEFMT_FUZZ_FUZZED_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/types/span.h"

namespace hindsight {

class FuzzedTrace {
 public:
  // `write` makes the trace in a directory that exists and is empty: in memory, where there is such
  // a file system.
  explicit FuzzedTrace(const std::function<void(const std::string& directory)>& write);
  ~FuzzedTrace();
  FuzzedTrace(const FuzzedTrace&) = delete;
  FuzzedTrace& operator=(const FuzzedTrace&) = delete;

  const std::string& directory() const { return directory_; }
  // Changes a file as `input` says, until Restore.
  void Change(absl::Span<const uint8_t> input);
  void Restore();
  // Writes inputs to begin with: all files as messages, and one as bytes.
  void WriteSeeds(const std::string& corpus) const;

 private:
  std::string directory_;
  std::map<std::string, std::string> files_;  // by name; as they were
  std::string changed_;                       // name; empty: none
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_FUZZ_FUZZED_TRACE_H_
