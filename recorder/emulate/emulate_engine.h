// The engine `emulate`: whose turn it is, who waits, what has been reported by waitpid.
//
//   ready threads take turns, one at a time     threads in system calls run in their processes,
//   is emulated: whose is next and how long     and become ready when waitpid reports their stop
//   it is, turn_scheduler.h decides
//
// It has more than 30 methods: besides those of two interfaces, accessors to the parts that
// processes and threads work with.
//
// Borrows the session, which must outlive it. Not copyable, not movable. One host thread, the one
// that traces.

#ifndef HINDSIGHT_RECORDER_EMULATE_EMULATE_ENGINE_H_
#define HINDSIGHT_RECORDER_EMULATE_EMULATE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/emulate/call_ends.h"
#include "recorder/emulate/cpu_pool.h"
#include "recorder/emulate/native_runs.h"
#include "recorder/emulate/new_tasks.h"
#include "recorder/emulate/recorded_process.h"
#include "recorder/emulate/task_table.h"
#include "recorder/emulate/thread/turn_scheduler.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/ptrace/affinity.h"
#include "recorder/session/engine.h"
#include "recorder/session/recording_session.h"

namespace hindsight {

class EmulateEngine final : public Engine, private NativeRuns::Client {
 public:
  explicit EmulateEngine(RecordingSession* session);
  ~EmulateEngine() override;

  absl::Status Record(pid_t process, absl::Span<const StoppedThread> threads) override;
  uint64_t open_instructions() const override;
  uint64_t living_processes() const override;

  // For processes and threads.
  RecordingSession& session() const { return *session_; }
  TurnScheduler& scheduler() { return scheduler_; }
  CpuPool& cpus() { return cpus_; }
  TaskTable& tasks() { return tasks_; }
  NativeRuns& native_runs() { return native_runs_; }
  NewTasks& new_tasks() { return new_tasks_; }
  CallEnds& call_ends() { return call_ends_; }
  // To be called now and then: checks the session's limits, flushes and shows progress.
  void Tick();
  // Waits for those threads other than `waiting` that have ended. The kernel reports a first
  // thread's end only after that of all others.
  void TakeExits(pid_t waiting);
  // There is one thread only: waiting for it holds up no other.
  bool alone() const { return tasks_.threads().size() == 1 && native_runs_.empty(); }
  // Threads are bound to the processor that the recorder runs on. Not those of a process that was
  // attached to: they would stay bound if the recorder were killed.
  bool binds_threads() const { return !session_->attached(); }
  // Another thread than `engine` wants a turn, or waitpid has something to report.
  bool OthersWait(const ThreadEngine* engine) const;
  // A recorded process has written to the memory of one, itself perhaps, in a way that is not
  // tracked: through /proc, or process_vm_writev from another pid namespace.
  bool untracked_writes() const { return untracked_writes_; }
  void NoteUntrackedWrites() { untracked_writes_ = true; }
  // A thread has chosen whether it may read the time-stamp counter, which threads and processes
  // that it makes inherit: from then on the threads execute rdtsc themselves.
  bool may_forbid_tsc() const { return may_forbid_tsc_; }
  void NoteTscForbidden() { may_forbid_tsc_ = true; }

 private:
  // NativeRuns::Client
  void OnReached(pid_t process, absl::Span<const StoppedThread> threads) override;
  void OnEnded(pid_t process, int wait_status) override;
  void OnUnrecorded() override { session_->NoteUnrecorded(); }

  absl::Status Begin(pid_t process, absl::Span<const StoppedThread> threads);
  void Loop();
  bool TakeStops(bool block);
  void TakeSnapshotsDue();
  void OnStatus(pid_t thread, int status);
  bool OnExec(ThreadEngine* engine, int status);
  bool RunReady();
  bool RunChosen();
  void RemoveEnded();
  void EndCallsDue();
  void LetGo();
  void StopNativeRuns();
  void WaitForProgram();

  RecordingSession* const session_;
  HostAffinity host_affinity_;
  TurnScheduler scheduler_;
  CpuPool cpus_;
  TaskTable tasks_;
  NativeRuns native_runs_;
  NewTasks new_tasks_;
  CallEnds call_ends_;
  bool may_forbid_tsc_ = false;
  bool untracked_writes_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_EMULATE_ENGINE_H_
