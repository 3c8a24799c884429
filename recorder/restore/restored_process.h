// A process of a snapshot, alive again.
//
//   Make --> stopped before its next instruction --> (AwaitSignal) --> Release --> runs natively
//
// It is a child of this process, and dies with the thread that made it. Threads that wait in system
// calls make them again, from their beginning: a sleep or a timeout begins anew.
//
// Not copyable. The host thread that made it.

#ifndef HINDSIGHT_RECORDER_RESTORE_RESTORED_PROCESS_H_
#define HINDSIGHT_RECORDER_RESTORE_RESTORED_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "isa/registers.h"
#include "recorder/process/process_memory.h"
#include "recorder/restore/restore_notes.h"
#include "recorder/restore/restored_memory.h"
#include "recorder/restore/restored_threads.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class RestoredProcess {
 public:
  // On error nothing is left: kFailedPrecondition (the kernel refuses something, or is another one
  // than the snapshot's), kPermissionDenied, kResourceExhausted, and those of the trace.
  static absl::StatusOr<std::unique_ptr<RestoredProcess>> Make(const TraceReader& trace,
                                                               const FullKeyframe& keyframe,
                                                               const ControlFile& control_file);
  // Kills and reaps it, unless its end has been waited for.
  ~RestoredProcess();
  RestoredProcess(const RestoredProcess&) = delete;
  RestoredProcess& operator=(const RestoredProcess&) = delete;

  pid_t pid() const { return pid_; }
  // The first one first; until Release stopped, and traced by the calling thread.
  std::vector<pid_t> threads() const;
  const RestoreNotes& notes() const { return notes_; }

  // Before Release: changes it. `thread`: as in the snapshot.
  bool WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes);
  // kNotFound: no such thread.
  absl::Status SetRegisters(int32_t thread, const RegisterFile& registers);

  // The thread for whose signal the snapshot was taken; 0: there is none. The signal is pending.
  pid_t signaled_thread() const;
  // Forgets that signal if an instruction has raised it: executed again, that raises it again,
  // unless what has been changed was the cause. kUnavailable: the process is gone.
  absl::Status ForgetFault();
  // Brings the thread to where it was, before the delivery of the signal; Release delivers it.
  // kUnavailable: the process is gone.
  absl::Status AwaitSignal();

  // Its threads run.
  void Release();

 private:
  explicit RestoredProcess(pid_t pid) : pid_(pid) {}
  absl::Status Build(const TraceReader& trace, const FullKeyframe& keyframe,
                     const ControlFile& control_file);
  RestoredThread* Signaled();

  const pid_t pid_;
  RestoreNotes notes_;
  std::vector<RestoredThread> threads_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_RESTORED_PROCESS_H_
