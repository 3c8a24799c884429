// What may have written to a process's memory, apart from the thread whose turn it was, by the time
// a full keyframe saved it.
//
// No other thread is executed in that turn, so the keyframe must have the bytes that the thread's
// view has. It may differ only where one of these stored something that the view has not seen, or
// has seen later:
//   - the kernel, in a system call that another thread was in. What it stored that thread's records
//     import where it returns (its view is empty at a keyframe, so there is an import). Of a call
//     that fails or never returns nothing is known. Calls that only wait, or only read memory,
//     store nothing;
//   - the kernel, for a thread that was just being made: its first import has it;
//   - processes with the same memory, and the kernel at times of its own choosing (io_uring, AIO).
//
// Borrows the trace and the claims. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_WRITERS_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_WRITERS_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keyframes/verify/verify_claims.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class OtherWriters {
 public:
  // At the full keyframe `start`. Requires: start.has_turn.
  OtherWriters(const TraceReader* trace, const TraceClaims* claims,
               const TraceClaims::KeyframeStart* start)
      : trace_(trace), claims_(claims), start_(start) {}

  // Whether somebody may have written to `page`.
  absl::StatusOr<bool> MayHaveWritten(uint64_t page);

 private:
  absl::Status Find();
  absl::Status AddThread(const FullKeyframe::ThreadState& state);
  absl::Status AddImports(int32_t thread, uint64_t segment, uint64_t count);
  bool MakesProcess(const ProcessEvent& call) const;
  bool IsBornWithSharedMemory() const;

  const TraceReader* const trace_;
  const TraceClaims* const claims_;
  const TraceClaims::KeyframeStart* const start_;
  bool searched_ = false;
  bool anywhere_ = false;  // they may have written to any page
  absl::flat_hash_set<uint64_t> pages_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_WRITERS_H_
