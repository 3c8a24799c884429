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
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/whole/process_copy.h"
#include "recorder/ptrace/whole/process_stop.h"
#include "recorder/snapshot/capture_configuration.h"
#include "recorder/snapshot/shared_memory.h"
#include "recorder/snapshot/written_memory.h"
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
  WrittenMemory written;  // the copy does not have it
  SavedMemory save;       // of memory only this
  std::unique_ptr<ProcessCopy> copy;
  IdlePace* pace = nullptr;  // that it is written at; null: at once. Borrowed
};

// The private memory of a capture, which outlives this.
class CapturedMemory final : public ProcessMemory {
 public:
  explicit CapturedMemory(const Capture& capture)
      : written_(capture.written), copy_(capture.copy->pid()) {}

  size_t ReadPieces(absl::Span<const MemoryPiece> pieces) const override;
  // Writes nothing.
  size_t WritePieces(absl::Span<const MemoryPiece> /*pieces*/) override { return 0; }

 private:
  bool ReadPiece(MemoryPiece piece) const;

  const WrittenMemory& written_;
  const ProcMemFile copy_;  // whatever the rights of the pages
};

// What the process has in memory, in bytes; 0 if it is gone.
uint64_t ResidentBytes(pid_t process);

// Makes all threads of a process stand still. Errors as of ProcessStop::Make.
using StopMaker = std::function<absl::StatusOr<std::unique_ptr<ProcessStop>>()>;

// Of ProcessStop::Make.
StopMaker StopForCapture(pid_t process, Stragglers* stragglers, DisturbedCalls* calls);

// Stops `process` for it. Errors as of `make_stop` and ProcessCopy::Make; the process runs on
// either way. The host thread that traces. `shared`, `written`: planned, not read.
absl::StatusOr<Capture> TakeCapture(pid_t process, SnapshotCause cause, const StopMaker& make_stop,
                                    SharedMemory shared, WrittenMemory written);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_CAPTURE_H_
