// Texts of files in /proc, as the kernel would have written them for the recorded process.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_PROC_FILES_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_PROC_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "tracefmt/records.h"

namespace hindsight {

// /proc/PID/maps.
std::string MapsText(const std::vector<MapRegion>& regions);

// /proc/PID/smaps as far as gdb's gcore wants it: the lines of maps, each with its VmFlags. gcore
// skips a region of which it cannot read a part. So regions are split where they stop or begin
// to be known, and the unknown parts are marked as not to be dumped. `known` returns whether all
// bytes of a range of whole pages can be read.
std::string SmapsText(const std::vector<MapRegion>& regions,
                      absl::FunctionRef<bool(uint64_t start, uint64_t end)> known);

// /proc/PID/cmdline or environ: each string followed by a zero.
std::string ZeroTerminated(const std::vector<std::string>& strings);

// Words as raw little-endian bytes: /proc/PID/auxv.
std::string RawWords(absl::Span<const uint64_t> words);

// /proc/PID/status and stat, with what a trace knows: names, ids, and that the process is stopped
// under a tracer.
struct ProcThread {
  std::string name;
  int32_t pid = 0, tid = 0, parent = 0;
  size_t threads = 1;
};
std::string StatusText(const ProcThread& thread);
std::string StatText(const ProcThread& thread);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_PROC_FILES_H_
