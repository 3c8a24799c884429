// Whether a process that was restored has come to where a later snapshot was taken, and whether its
// memory is there what it was then.
//
// Movable, copyable. One thread.

#ifndef HINDSIGHT_RECORDER_RESTORE_TARGET_CHECK_H_
#define HINDSIGHT_RECORDER_RESTORE_TARGET_CHECK_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recorder/process/process_memory.h"
#include "recorder/snapshot/capture.h"

namespace hindsight {

// Where the run ends.
struct RefineTarget {
  // A snapshot with the same cause, the `arrivals`th such one; or, of one that no place in the
  // program caused, the first after `elapsed_ns` of running.
  bool by_time = false;
  uint64_t elapsed_ns = 0;
  SnapshotCause cause;  // its thread does not count
  uint64_t arrivals = 1;
};

// By trigger, level, class, id, label and attributes; not by the thread.
bool IsSameCause(const SnapshotCause& a, const SnapshotCause& b);

struct ExpectedBytes {
  std::string name;
  uint64_t address = 0;
  std::vector<uint8_t> bytes;
};

struct BytesDifference {
  std::string name;
  std::vector<uint8_t> expected, found;  // `found` is empty: not mapped
};

class TargetCheck {
 public:
  // No target: the run goes to the program's end.
  TargetCheck(std::optional<RefineTarget> target, std::vector<ExpectedBytes> expected)
      : target_(std::move(target)), expected_(std::move(expected)) {}

  // To be asked of each snapshot of the run, in order. `time_ns`: since it began.
  bool IsReached(const SnapshotCause& cause, uint64_t time_ns);
  // What is not as expected in the memory of `process`, or in `memory`.
  std::vector<BytesDifference> Compare(pid_t process) const {
    return Compare(ProcMemFile(process));
  }
  std::vector<BytesDifference> Compare(const ProcessMemory& memory) const;

 private:
  std::optional<RefineTarget> target_;
  std::vector<ExpectedBytes> expected_;
  uint64_t arrivals_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_TARGET_CHECK_H_
