// Taking one snapshot of a running process: the moment, as values and a copy of its memory.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_CAPTURE_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_CAPTURE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/ptrace/whole/process_copy.h"
#include "recorder/ptrace/whole/process_stop.h"
#include "recorder/snapshot/capture_configuration.h"
#include "recorder/snapshot/shared_memory.h"
#include "tracefmt/kernel_state.h"

namespace hindsight {

class IdlePace;

// Why a snapshot is taken. Values as in the event `snapshot` of a trace.
struct SnapshotCause {
  uint32_t trigger = 9;
  pid_t thread = 0;  // that asked; 0: none did
  int32_t level = 0;
  uint32_t class_number = 0;
  uint32_t id = 0;
  std::string text;         // lines key=value
  std::string signal_info;  // of a signal: siginfo_t as the kernel gave it
};

// Movable.
struct Capture {
  SnapshotCause cause;
  uint64_t time_ns = 0;   // since the recording began
  uint64_t arrivals = 0;  // at places, as far as skip and stride count them
  uint64_t skew_ns = 0;
  uint64_t stood_ns = 0;
  uint64_t resident_bytes = 0;  // of the process: what the copy may come to take
  std::vector<ThreadMoment> threads;
  std::vector<uint64_t> auxv;
  KernelState kernel;
  SharedMemory shared;
  SavedMemory save;  // of memory only this
  std::unique_ptr<ProcessCopy> copy;
  IdlePace* pace = nullptr;  // asked before each piece of it is read; null: nobody. Borrowed
};

// What the process has in memory, in bytes; 0 if it is gone.
uint64_t ResidentBytes(pid_t process);

// Makes all threads of a process stand still. Errors as of ProcessStop::Make.
using StopMaker = std::function<absl::StatusOr<std::unique_ptr<ProcessStop>>()>;

// Of ProcessStop::Make.
StopMaker StopForCapture(pid_t process, Stragglers* stragglers, DisturbedCalls* calls);

// Stops `process` for it. Errors as of `make_stop` and ProcessCopy::Make; the process runs on
// either way. The host thread that traces. `most_shared`: as of SharedMemory::Plan.
absl::StatusOr<Capture> TakeCapture(pid_t process, SnapshotCause cause, const StopMaker& make_stop,
                                    uint64_t most_shared);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_CAPTURE_H_
