// One recording, whichever engine makes it: its options, its clock, the order of its events,
// when it ends and why, the traces of its processes, and its result.
//
//   recording --+-- a request, a limit, the program's end: end_reason() --+--> end_wanted()
//               +-- an error: the first one is kept ----------------------+
//
// An engine opens a trace for each process that it records, calls Tick now and then, stops when an
// end is wanted, and closes the traces.
//
// It has more methods and fields than most classes, because it holds all that engines share; what
// has rules of its own is a class (RecordedPart, StopRequest, ProgressDisplay).
//
// Not copyable, not movable; one at a time (StopRequest). One host thread.

#ifndef HINDSIGHT_RECORDER_SESSION_RECORDING_SESSION_H_
#define HINDSIGHT_RECORDER_SESSION_RECORDING_SESSION_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "isa/memory_model.h"
#include "recorder/log/opened_modules.h"
#include "recorder/log/process_log.h"
#include "recorder/log/thread_log.h"
#include "recorder/process/foreign_mappings.h"
#include "recorder/session/options.h"
#include "recorder/session/progress_display.h"
#include "recorder/session/recorded_part.h"
#include "recorder/session/snapshot_triggers.h"
#include "recorder/session/stop_request.h"

namespace hindsight {

class Engine;

class RecordingSession {
 public:
  using Clock = std::chrono::steady_clock;
  struct Trace {
    std::unique_ptr<TraceWriter> writer;
    Manifest manifest;  // of the process that the recording begins with
  };

  // What the options say, parsed. Null: nothing of the kind.
  struct Plan {
    std::unique_ptr<RecordedPart> part;
    std::unique_ptr<SnapshotTriggers> triggers;
  };

  // `trace` is that of the first process that will be recorded.
  RecordingSession(const RecordOptions& options, Plan plan, Trace trace,
                   std::function<Clock::time_point()> now = Clock::now);
  RecordingSession(const RecordingSession&) = delete;
  RecordingSession& operator=(const RecordingSession&) = delete;

  const RecordOptions& options() const { return options_; }
  bool attached() const { return options_.attach_pid != 0; }
  MemoryModel memory_model() const { return options_.memory_model; }
  RecordedPart& part() { return *part_; }
  ProgressDisplay& progress() { return progress_; }
  SnapshotTriggers& triggers() { return *triggers_; }
  // What is due for a process that has seen `seen`.
  std::optional<SnapshotReason> SnapshotDue(SnapshotTriggers::Seen* seen) const;
  SnapshotTriggers::Seen SnapshotsSeen() const;
  // A snapshot could not be taken.
  void NoteMissedSnapshots(uint64_t count) { result_.snapshots_missed += count; }
  // The engine says which processes it records (set_recorded).
  ForeignMappings& foreign_mappings() { return foreign_mappings_; }
  // A task runs from now on that is not recorded.
  void NoteUnrecorded();
  Sequence* sequence() { return &sequence_; }
  // Since the recording began.
  uint64_t NowNs() const;

  // The traces. `process`: its pid, program, arguments and the like, and its maker if a recorded
  // process made it (`parent`, else null). `root`: as ProcessLog has it.
  absl::StatusOr<ProcessLog*> Open(Manifest process, ProcessLog* parent, std::string root);
  // What is known of every process, to begin a manifest with.
  const Manifest& manifest() const { return trace_.manifest; }
  // The process has ended or runs on unrecorded: finishes its trace. Requires: nothing refers to
  // it any more.
  void Close(ProcessLog* log);

  // The end. Ends the recording: the first error counts.
  void Keep(absl::Status status) { status_.Update(std::move(status)); }
  const absl::Status& status() const { return status_; }
  bool failed() const { return !status_.ok(); }
  bool end_wanted() const { return failed() || !end_reason_.empty(); }
  const std::string& end_reason() const { return end_reason_; }
  bool timed_out() const { return result_.timed_out; }
  // No other snapshot is wanted, and the program is not to run on.
  void EndAtSnapshot();
  bool ended_at_snapshot() const { return ended_at_snapshot_; }
  // Of a program that was launched: the signal to pass on to it once it runs on alone; 0: none.
  int signal_for_program() const { return stop_.signal_for_program(); }

  // The program: the process that the recording begins with.
  void SetProgram(pid_t process) { program_ = process; }
  pid_t program() const { return program_; }
  void NoteProgramExit(int wait_status);
  bool program_exited() const { return program_exit_.has_value(); }

  // Ends the recording at its limits, flushes and shows progress, if it is time for that.
  void Tick(const Engine& engine);
  // A blocking call that begins now is interrupted then, as NowNs() counts, if not before.
  void WakeAt(uint64_t ns);
  // What has been appended to the traces is about to be handed to the system.
  bool flush_due() const;
  // A block was executed natively as well. Empty: nothing differs.
  void NoteBlockCheck(const std::string& difference);

  // Recording is over, though the program may run on: finishes the traces that are left.
  void FinishTraces();
  // Requires: after FinishTraces; the program has ended if it was launched.
  absl::StatusOr<RecordResult> Result();
  // Of all its processes.
  const std::shared_ptr<OpenedModules>& modules() const { return modules_; }

 private:
  void CheckLimits(const Engine& engine);
  void Finish(ProcessLog* log);
  uint64_t trace_bytes() const;
  RecordProgress Progress(const Engine& engine) const;

  const RecordOptions options_;
  const std::unique_ptr<RecordedPart> part_;
  const std::unique_ptr<SnapshotTriggers> triggers_;
  const std::function<Clock::time_point()> now_;
  const Clock::time_point start_;
  Clock::time_point last_flush_;
  Sequence sequence_;
  Trace trace_;  // no writer once a process has it
  const std::shared_ptr<OpenedModules> modules_ = std::make_shared<OpenedModules>();
  std::list<std::unique_ptr<ProcessLog>> logs_;  // open ones; the first one is kept to the end
  absl::Status status_;
  std::string end_reason_;
  bool ended_at_snapshot_ = false;
  pid_t program_ = 0;
  std::optional<Clock::time_point> program_exit_;
  StopRequest stop_;
  ProgressDisplay progress_;
  ForeignMappings foreign_mappings_;
  RecordResult result_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_RECORDING_SESSION_H_
