// Reads everything in a trace of snapshots, and checks that its parts agree.
//
// Nothing can be replayed there, so this proves less than verify.h does of a recording: that what
// was written can be read, unchanged, and is complete.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_SNAPSHOTS_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_SNAPSHOTS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct SnapshotsVerified {
  // OK: every check passed. Else kDataLoss: the first that did not, naming file or snapshot.
  absl::Status difference;
  std::vector<uint64_t> damaged;  // the numbers of snapshots that are not whole
  uint64_t snapshots = 0;         // read
  uint64_t pages = 0;             // of them all, read through their references
  uint64_t threads = 0;           // register files
  uint64_t kernel_states = 0;     // snapshots with what the kernel kept of the process
  uint64_t unseen_pages = 0;      // mapped, but not captured: nothing to be checked
  uint64_t events = 0;
  uint64_t modules = 0;  // whose stored bytes have their hash
  uint64_t modules_not_stored = 0;
  std::string no_totals;  // as VerifyResult has it
  double seconds = 0;

  bool whole() const { return difference.ok(); }
};

// Checks that
//   - every file is whole, and all is there that the manifest says was written;
//   - every page of every snapshot can be read, in whichever file its bytes are, and lies in a
//     mapping;
//   - mappings ascend and do not overlap; their modules exist, and stored modules have their hash;
//   - each snapshot has threads, each of them once, with registers;
//   - each snapshot has its events, one after the other, and each such event its snapshot.
// `progress` is called with the snapshots read, now and then. kCancelled: `interrupt` (polled, may
// be null) was raised.
absl::StatusOr<SnapshotsVerified> VerifySnapshots(
    const TraceReader& trace, const std::function<void(uint64_t snapshots)>& progress = nullptr,
    const std::atomic<bool>* interrupt = nullptr);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_SNAPSHOTS_H_
