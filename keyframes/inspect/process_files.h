// The files that a trace can show of a process: modules, and those of /proc. And thread-local
// storage, whose layout is in one of the modules.
//
// The host's file system is never looked at. Borrows the trace, which must outlive it. One thread
// at a time.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_PROCESS_FILES_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_PROCESS_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/inspect/link_map.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// What the process is at the place asked about.
class ProcessFacts {
 public:
  virtual ~ProcessFacts() = default;
  virtual absl::Span<const uint64_t> AuxvWords() const = 0;
  virtual std::string ExecutablePath() const = 0;
  virtual std::string CommandLine(MemoryReader memory) const = 0;  // zero-terminated strings
  virtual std::vector<int32_t> Threads() const = 0;                // alive; at least one
  virtual bool IsAlive(int32_t thread) const = 0;
  virtual std::string ThreadName(int32_t thread) const = 0;
  virtual std::vector<MapRegion> Regions() const = 0;
  virtual int32_t ModuleAt(uint64_t address) const = 0;  // negative: none is mapped there
};

class ProcessFiles {
 public:
  explicit ProcessFiles(const TraceReader* trace) : trace_(trace) {}

  // kNotFound: not something the trace can show. kInvalidArgument: there, but no link.
  absl::StatusOr<std::string> ReadLink(const std::string& path, const ProcessFacts& facts,
                                       MemoryReader memory);
  absl::StatusOr<std::string> FileContents(const std::string& path, const ProcessFacts& facts,
                                           MemoryReader memory);
  // As ProcessView::TlsAddress.
  absl::StatusOr<uint64_t> TlsAddress(uint64_t fs_base, uint64_t offset, uint64_t link_map,
                                      MemoryReader memory);

 private:
  // The module that was opened by this name, which may be a link to the name it was mapped by.
  std::optional<int32_t> FindModule(const std::string& path, const ProcessFacts& facts,
                                    MemoryReader memory);
  std::optional<int32_t> ModuleAt(uint64_t address, const ProcessFacts& facts) const;
  // The part of `path` after /proc/PID/, /proc/TID/ or /proc/PID/task/TID/, and its thread;
  // nullopt if there is none.
  struct ProcFile {
    int32_t thread = 0;
    std::string name;
  };
  std::optional<ProcFile> FindProcFile(const std::string& path, const ProcessFacts& facts) const;
  absl::StatusOr<std::string> ProcContents(const ProcFile& file, const ProcessFacts& facts,
                                           MemoryReader memory) const;

  const TraceReader* trace_;
  std::map<std::string, int32_t> found_;  // names that FindModule found by address
  std::optional<GlibcTlsLayout> tls_layout_;
  bool tls_layout_known_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_PROCESS_FILES_H_
