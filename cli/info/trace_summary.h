// The contents of a process's trace in numbers, without replaying it.

#ifndef HINDSIGHT_CLI_INFO_TRACE_SUMMARY_H_
#define HINDSIGHT_CLI_INFO_TRACE_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "keyframes/state/position.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct ThreadSummary {
  int32_t thread = 0;
  std::string name;  // its last one; empty: not known
  uint64_t segments = 0;
  uint64_t instructions = 0;
  uint64_t slices = 0;
  // Its turns in the emulator, added up; the last of them only where its end is known. 0: the trace
  // does not say, as of a process with one thread.
  uint64_t running_ns = 0;
  std::set<uint64_t> cpus;  // that it ran on
  uint64_t moves = 0;       // to another CPU than before
  // Only with SummaryOptions::positions.
  Position start, end;
};

struct GapSummary {
  int32_t thread = 0;
  uint64_t count = 0;
  std::string reason;
};

struct TraceSummary {
  std::string program;  // executed last
  std::vector<ThreadSummary> threads;
  uint64_t segments = 0;
  uint64_t instructions = 0;
  uint64_t syscalls = 0;
  uint64_t signals = 0;
  uint64_t slices = 0;
  uint64_t forks = 0;
  uint64_t execs = 0;
  // Orderable events.
  uint64_t kernel_events = 0;
  std::optional<uint64_t> ordered_instructions;  // none: the trace does not say how many
  std::vector<GapSummary> gaps;
};

struct SummaryOptions {
  bool positions = false;  // may have to load segments
  // When the recording ended, in nanoseconds since it began; 0: not known. Ends the last slice.
  uint64_t end_ns = 0;
};

TraceSummary Summarize(const TraceReader& trace, const SummaryOptions& options = {});

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_INFO_TRACE_SUMMARY_H_
