// What a debugger reads of a recorded process besides registers and memory: auxiliary vector,
// libraries, thread-local storage, files.
//
// Everything comes from the trace; the host's file system is never looked at. Borrows trace and
// process state, which must outlive it. `moment` is the one asked about, and
// `memory` reads the memory as it is then. Threads asked about must be alive. One thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_RECORDED_OBJECTS_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_RECORDED_OBJECTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "keyframes/inspect/link_map.h"
#include "keyframes/inspect/process_files.h"
#include "keyframes/state/process_state.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class RecordedObjects {
 public:
  RecordedObjects(const TraceReader* trace, const ProcessState* process)
      : trace_(trace), process_(process), files_(trace) {}

  absl::StatusOr<std::string> Auxv(uint64_t moment) const;
  // The 128 bytes of siginfo_t of the signal that is delivered to the thread next, else of a plain
  // trap, which is what a tracer of a live process would see.
  std::string SigInfo(int32_t thread, uint64_t moment) const;
  std::string ExecutablePath(uint64_t moment) const;
  // As the kernel keeps it: what the thread was named, else the last part of the program's path.
  std::string ThreadName(int32_t thread, uint64_t moment) const;
  // The processor on which the thread ran last; nullopt: unknown.
  std::optional<int> ThreadProcessor(int32_t thread, uint64_t moment);

  LinkMap Libraries(uint64_t moment, MemoryReader memory) const;
  absl::StatusOr<uint64_t> TlsAddress(uint64_t fs_base, uint64_t offset, uint64_t link_map,
                                      MemoryReader memory);

  // kNotFound: not something the trace can show. kInvalidArgument: there, but no link.
  absl::StatusOr<std::string> ReadLink(const std::string& path, uint64_t moment,
                                       MemoryReader memory);
  absl::StatusOr<std::string> FileContents(const std::string& path, uint64_t moment,
                                           MemoryReader memory);

 private:
  absl::Span<const uint64_t> AuxvWords(uint64_t moment) const;
  // Zero-terminated, from where the kernel put them for the program.
  std::string CommandLine(uint64_t moment, MemoryReader memory) const;
  class FactsAt;

  const TraceReader* trace_;
  const ProcessState* process_;
  ProcessFiles files_;
  // By thread: where it ran from which sequence number on, ascending. Made when first asked for.
  struct Placement {
    uint64_t sequence = 0;
    int processor = 0;
  };
  std::optional<std::map<int32_t, std::vector<Placement>>> placements_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_RECORDED_OBJECTS_H_
