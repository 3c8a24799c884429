// Replays every segment of a trace and compares with what was recorded: what a trace proves.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
  double seconds = 0;

  bool exact() const { return difference.ok(); }
};

// Replays all segments of all threads, in parallel, and checks that each ends in the registers the
// trace says, that these begin the next segment, and every register hash on the way. Damaged
// segments count as differences. And checks that sequence numbers are never repeated in the
// process, rise along each thread, and stand in slices of their threads. Other damaged files of the
// trace count as differences too. An error only where nothing could be checked.
absl::StatusOr<VerifyResult> Verify(const TraceReader& trace, const VerifyOptions& options = {});

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_H_
