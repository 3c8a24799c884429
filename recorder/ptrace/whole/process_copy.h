// A copy of a stopped process's memory and descriptors, by the kernel's copy on write: made in the
// time that it takes to copy page tables, it keeps the moment while the process runs on.
//
//   process (a thread of it, stopped)
//     +- courier   shares the memory, lives for an instant, makes the copy
//          +- copy      stopped before its first instruction; never runs
//
// The copy is nobody's child that the program could wait for: it is ours if the process is our
// child, else it becomes that of the process which adopts orphans. It is killed by the kernel when
// its tracer dies. The courier keeps short the time in which the program's own thread has other
// registers than its own.
//
// What a copy does not have: memory that children do not get (MADV_DONTFORK, MADV_WIPEONFORK).
// Shared memory is the process's own, and changes.
//
// Not copyable. Make: the host thread that traces. Everything else: any, one at a time.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_PROCESS_COPY_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_PROCESS_COPY_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "recorder/ptrace/whole/process_stop.h"

namespace hindsight {

// Of whole pages.
struct AddressRange {
  uint64_t start = 0;
  uint64_t end = 0;
};

class ProcessCopy {
 public:
  // Requires: `stop` is not released. On error (kResourceExhausted: no more processes;
  // kUnavailable: the process is gone or has no vdso) the process is as it was.
  static absl::StatusOr<std::unique_ptr<ProcessCopy>> Make(const ProcessStop& stop);
  // Gives up anonymous memory of the copy, which reads as zeros then: the process need not copy it
  // when it writes there. What the kernel refuses stays. The host thread that made it.
  void Forget(absl::Span<const AddressRange> ranges);
  // Kills and reaps it.
  ~ProcessCopy();
  ProcessCopy(const ProcessCopy&) = delete;
  ProcessCopy& operator=(const ProcessCopy&) = delete;

  // For /proc and process_vm_readv.
  pid_t pid() const { return pid_; }

 private:
  ProcessCopy(pid_t pid, uint64_t instruction) : pid_(pid), instruction_(instruction) {}

  const pid_t pid_;
  const uint64_t instruction_;  // of a system call
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_PROCESS_COPY_H_
