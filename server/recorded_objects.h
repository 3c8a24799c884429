// What a debugger asks of a recorded process besides registers and memory: auxiliary vector,
// libraries, thread-local storage, files.
//
// Everything comes from the trace; the host's file system is never looked at. Borrows trace and
// process state, which must outlive it. `count` is the state the question is about, and `memory`
// reads the memory of that state. One thread at a time.

#ifndef HINDSIGHT_SERVER_RECORDED_OBJECTS_H_
#define HINDSIGHT_SERVER_RECORDED_OBJECTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "keyframes/process_state.h"
#include "server/link_map.h"
#include "server/target.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class RecordedObjects {
 public:
  RecordedObjects(const TraceReader* trace, const ProcessState* process)
      : trace_(trace), process_(process) {}

  absl::StatusOr<std::string> Auxv(uint64_t count) const;
  // The 128 bytes of siginfo_t of the signal that is delivered next, else of a plain trap, which is
  // what a tracer of a live process would see.
  std::string SigInfo(uint64_t count) const;
  std::string ExecutablePath(uint64_t count) const;
  // The last part of the program's path, as short as the kernel keeps it.
  std::string CommandName(uint64_t count) const;

  LinkMap Libraries(uint64_t count, MemoryReader memory) const;
  absl::StatusOr<uint64_t> TlsAddress(uint64_t fs_base, uint64_t offset, uint64_t link_map,
                                      MemoryReader memory);

  // kNotFound: not something the trace can show. kInvalidArgument: there, but no link.
  absl::StatusOr<std::string> ReadLink(const std::string& path, uint64_t count,
                                       MemoryReader memory);
  absl::StatusOr<std::string> FileContents(const std::string& path, uint64_t count,
                                           MemoryReader memory);

 private:
  absl::Span<const uint64_t> AuxvWords(uint64_t count) const;
  // Zero-terminated, from where the kernel put them for the program.
  std::string CommandLine(uint64_t count, MemoryReader memory) const;
  // The module that was opened by this name, which may be a link to the name it was mapped by.
  std::optional<int32_t> FindModule(const std::string& path, uint64_t count, MemoryReader memory);
  std::optional<int32_t> ModuleAt(uint64_t address, uint64_t count) const;
  // The part of `path` behind /proc/PID/ or /proc/PID/task/TID/; nullopt if it is not there.
  std::optional<std::string> ProcFile(const std::string& path) const;
  absl::StatusOr<std::string> ProcContents(const std::string& name, uint64_t count,
                                           MemoryReader memory) const;

  const TraceReader* trace_;
  const ProcessState* process_;
  std::map<std::string, int32_t> found_;  // names that FindModule found by address
  std::optional<GlibcTlsLayout> tls_layout_;
  bool tls_layout_known_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_RECORDED_OBJECTS_H_
