// Threads and processes whose recording begins: made by recorded ones, or come to where they are
// to be recorded.
//
// Borrows the engine that records them. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_NEW_TASKS_H_
#define HINDSIGHT_RECORDER_EMULATE_NEW_TASKS_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "recorder/ptrace/breakpoint_run.h"
#include "recorder/ptrace/tracee.h"

namespace hindsight {

class RecordedProcess;
class EmulateEngine;
class ThreadEngine;

// A task made by a recorded one: nothing to record, a thread, or a process.
struct NewTask {
  pid_t process = 0;
  bool is_thread = false;
  bool recorded = false;
};

class NewTasks {
 public:
  explicit NewTasks(EmulateEngine* engine) : engine_(engine) {}
  NewTasks(const NewTasks&) = delete;
  NewTasks& operator=(const NewTasks&) = delete;

  // Records the stopped process from here on. If it cannot be recorded, it runs on alone. Returns
  // the first error of the whole recording.
  absl::Status Record(pid_t process, absl::Span<const StoppedThread> threads);
  // The same of a process whose recording has paused.
  absl::Status RecordAgain(RecordedProcess* process, absl::Span<const StoppedThread> threads);
  // `parent`, in state `parent_count` and in a system call, has reported `stop`: a birth.
  NewTask OnBirth(ThreadEngine* parent, RecordedProcess* process, const TraceeStop& stop,
                  uint64_t parent_count);
  // The same at the end of the recording: the new task runs on alone.
  void LetGo(ThreadEngine* parent, RecordedProcess* process, const TraceeStop& stop);
  // The first stop of a task whose birth has not been reported yet.
  void NoteEarlyStop(pid_t task, int wait_status) { early_[task] = wait_status; }

 private:
  void AwaitBirth(pid_t task);
  void RunAlone(ThreadEngine* parent, RecordedProcess* process, pid_t task);
  void Begin(RecordedProcess* process, absl::Span<const StoppedThread> threads);
  absl::Status MakeProcess(ThreadEngine* parent, RecordedProcess* process, const TraceeStop& stop,
                           uint64_t parent_count);

  EmulateEngine* const engine_;
  absl::flat_hash_map<pid_t, int> early_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_NEW_TASKS_H_
