// The processes that engine `emulate` records, and their threads that live.
//
// Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_TASK_TABLE_H_
#define HINDSIGHT_RECORDER_EMULATE_TASK_TABLE_H_

#include <sys/types.h>

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace hindsight {

class RecordedProcess;
class ThreadEngine;

class TaskTable {
 public:
  TaskTable();
  ~TaskTable();
  TaskTable(const TaskTable&) = delete;
  TaskTable& operator=(const TaskTable&) = delete;

  // In the order in which their recording began.
  const std::list<std::unique_ptr<RecordedProcess>>& processes() const { return processes_; }
  RecordedProcess* AddProcess(std::unique_ptr<RecordedProcess> process);
  // Removes threads that have ended, and processes all of whose threads have; `ended` is called
  // for each of those before.
  void RemoveEnded(const std::function<void(RecordedProcess*)>& ended);
  // Whether a process is recorded now: neither before nor after that, nor in a gap.
  bool IsRecorded(pid_t process) const;
  // The process if its recording pauses, else null.
  RecordedProcess* FindPaused(pid_t process) const;
  // Ends the recording of the process that `thread` belongs to, if it is recorded.
  void LetGoOf(pid_t thread, const std::string& reason);
  // Whether a thread of that process waits for a child of vfork, and cannot be stopped before that
  // has memory of its own.
  bool WaitsForChild(pid_t thread) const;

  // Threads that may be stopped and run: those of paused processes are not here.
  const absl::flat_hash_map<pid_t, ThreadEngine*>& threads() const { return threads_; }
  void AddThread(ThreadEngine* thread);
  void RemoveThread(pid_t thread) { threads_.erase(thread); }
  void ClearThreads() { threads_.clear(); }
  ThreadEngine* Find(pid_t thread) const;

  // Threads that are to be detached as soon as they stop, or end.
  void NoteToDetach(pid_t thread) { to_detach_.insert(thread); }
  bool TakeToDetach(pid_t thread) { return to_detach_.erase(thread) > 0; }

 private:
  std::list<std::unique_ptr<RecordedProcess>> processes_;
  absl::flat_hash_map<pid_t, ThreadEngine*> threads_;
  absl::flat_hash_set<pid_t> to_detach_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_TASK_TABLE_H_
