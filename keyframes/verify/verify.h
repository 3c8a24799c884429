// Replays every segment of a trace and compares with what was recorded: what a trace proves.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keyframes/verify/verify_counts.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct VerifyProgress {
  uint64_t segments_done = 0;
  uint64_t segments_total = 0;
  uint64_t states_done = 0;
};

struct VerifyOptions {
  int host_threads = 0;  // 0: one per core
  // Called now and then (about every 100 ms) on the calling thread.
  std::function<void(const VerifyProgress&)> progress;
  // Raised: verification stops with kCancelled. May be null; borrowed.
  const std::atomic<bool>* interrupt = nullptr;
};

struct VerifyResult {
  // OK: every check matched. Else kDataLoss: the first difference (of the lowest count), naming
  // thread, segment, count, position, pc and what differs.
  absl::Status difference;
  uint64_t segments = 0;         // replayed
  uint64_t segments_failed = 0;  // of these
  uint64_t states = 0;           // transitions replayed
  uint64_t signals = 0;          // of these, deliveries: no instructions
  uint64_t checks = 0;           // register files and hashes compared
  uint64_t order_numbers = 0;    // sequence numbers checked
  VerifyCounts counts;           // what else was compared
  // Why what may be missing at the trace's end is not known. Empty: all is there that the manifest
  // says was recorded.
  std::string no_totals;
  double seconds = 0;

  bool exact() const { return difference.ok(); }
};

// Checks, in parallel:
//   - that all is there that the manifest says was recorded;
//   - that replay of each segment ends in the registers the trace says, which begin the next one,
//     and every hash of registers and of memory on the way;
//   - that events and records agree: each system call, signal and exec has its event, with the same
//     sequence number, arguments and result; so have the starts and ends of threads, forks and full
//     keyframes;
//   - that full keyframes have the registers that segments begin with, and the memory they find;
//   - that sequence numbers are never repeated in the process, rise along each thread, and lie in
//     slices of their threads;
//   - that every file of the trace is whole, and stored modules have their hash.
// An error only where nothing could be checked.
absl::StatusOr<VerifyResult> Verify(const TraceReader& trace, const VerifyOptions& options = {});

// What could not be checked, and why: one line each.
std::vector<std::string> Unchecked(const VerifyResult& result);

// Whether all processes that `parent` made, and that were recorded, are among `processes`.
absl::Status CheckChildren(const TraceReader& parent, const std::vector<ProcessInfo>& processes);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_H_
