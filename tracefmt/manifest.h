// What a trace is a recording of.

#ifndef HINDSIGHT_TRACEFMT_MANIFEST_H_
#define HINDSIGHT_TRACEFMT_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hindsight {

enum class TraceState : uint16_t {
  kRecording = 0,    // a recorder holds the lock and is writing
  kComplete = 1,     // the program ended, or recording was stopped on purpose
  kInterrupted = 2,  // the recorder died; never stored, found by readers (no lock holder)
};

// What a trace holds once it is complete, so that a reader notices what is missing.
struct ThreadTotals {
  int32_t thread = 0;
  uint64_t segments = 0;   // numbered from 0
  uint64_t end_count = 0;  // the thread's last state
  uint64_t records = 0;    // in all its segments

  bool operator==(const ThreadTotals&) const = default;
};
struct TraceTotals {
  std::vector<ThreadTotals> threads;
  uint64_t events = 0;
  uint64_t full_keyframes = 0;  // numbered from 1
  uint64_t modules = 0;

  bool operator==(const TraceTotals&) const = default;
};

struct Manifest {
  std::string uuid;     // 16 raw bytes; filled in by TraceWriter::Create if empty
  std::string program;  // absolute path of the executable
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::string working_directory;
  int32_t pid = 0;
  int64_t start_time_ns = 0;                   // since the epoch
  std::string host_cpu;                        // brand string
  std::vector<std::string> required_features;  // host features replay needs; empty: none
  std::string engine;                          // "emulate" or "translate"
  std::string memory_model;                    // "kernel", "fence", "acqrel", "load"
  std::string register_layout;                 // "amd64-v1"
  // What CPUID reported to the program: "portable", or "host", the recording machine's own
  // features. Empty in older traces: portable.
  std::string cpu;
  uint64_t light_keyframe_interval = 0;  // instructions; 0: only at the start
  uint64_t full_keyframe_interval = 0;   // instructions; 0: only at the start
  std::vector<uint64_t> auxv;            // type, value, ... as the program saw it

  // Of a process made by a recorded process: its parent's trace is in `parent_directory` (relative
  // to this one). Memory it has from birth is the parent's at this state of the thread that forked.
  int32_t parent_pid = 0;  // 0: none is recorded
  std::string parent_directory;
  int32_t parent_thread = 0;
  uint64_t parent_count = 0;
  uint64_t parent_sequence = 0;  // of the fork
  // How the threads took turns: "turns", or "chaos": so as to find bugs. Empty in older traces.
  std::string schedule;
  uint64_t schedule_seed = 0;  // what was left to chance was drawn from this
  // "launch", "fork", "attach", "start-at": why recording began where it did.
  std::string start_kind;
  // How much of its newest part is kept, as the user gave it; empty: all of it.
  std::string ring;

  TraceState state = TraceState::kRecording;
  // Meaningful once complete.
  int32_t exit_status = -1;  // as wait(2) reports it; -1: recording stopped before the end
  std::string end_reason;    // empty: the program ended; else why recording stopped
  uint64_t end_sequence = 0;
  uint64_t end_time_ns = 0;  // wall-clock time since start_time_ns
  // Orderable events of this process: by kernel events, and by instructions (OrderRun).
  uint64_t ordered_kernel_events = 0;
  uint64_t ordered_instructions = 0;
  // Nothing if the trace is not complete, or older than these.
  std::optional<TraceTotals> totals;
};

// Whether the process's threads ran truly at once: what others write while a thread's slice lasts
// is not known to come after it. Otherwise they took turns, each of which began with all that had
// been written before.
inline bool RunsThreadsAtOnce(const Manifest& manifest) { return manifest.engine == "translate"; }

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MANIFEST_H_
