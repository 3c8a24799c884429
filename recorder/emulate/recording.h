// A recording of one or more processes: whose turn it is, who waits, what ends it.
//
//   ready threads take turns, one at a time     threads in system calls run in their processes,
//   is emulated: whose is next and how long     and become ready when waitpid reports their stop
//   it is, turn_scheduler.h decides
//
// Not copyable, not movable. One host thread, the one that traces.

#ifndef HINDSIGHT_RECORDER_EMULATE_RECORDING_H_
#define HINDSIGHT_RECORDER_EMULATE_RECORDING_H_

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/emulate/recorded_process.h"
#include "recorder/emulate/thread/turn_scheduler.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/log/opened_modules.h"
#include "recorder/log/thread_log.h"
#include "recorder/process/foreign_mappings.h"
#include "recorder/process/symbols.h"
#include "recorder/ptrace/affinity.h"
#include "recorder/ptrace/breakpoint_run.h"
#include "recorder/session/options.h"
#include "recorder/session/stop_request.h"
#include "recorder/syscalls/terminal_use.h"

namespace hindsight {

class Recording {
 public:
  explicit Recording(const RecordOptions& options, MemoryModel model);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Where the first process recorded goes. Requires: called once, before Begin.
  absl::Status SetTrace(std::unique_ptr<TraceWriter> writer, Manifest manifest);
  // The process the recording begins with, all of whose `threads` are stopped: recorded at once, or
  // once it gets to where the options say.
  absl::Status Begin(pid_t process, absl::Span<const NativeThread> threads);
  // Records until the last process has ended, or recording must end: then they run on alone, and
  // the root's end is waited for.
  absl::StatusOr<RecordResult> Run();

  // For processes and threads.
  const RecordOptions& options() const { return options_; }
  MemoryModel memory_model() const { return model_; }
  Sequence* sequence() { return &sequence_; }
  TurnScheduler& scheduler() { return scheduler_; }
  const std::shared_ptr<OpenedModules>& module_files() const { return module_files_; }
  ForeignMappings& foreign_mappings() { return foreign_mappings_; }
  uint64_t NowNs() const;
  // Keeps the first error: it ends the recording.
  void Keep(absl::Status status) { status_.Update(std::move(status)); }
  // What a block came to that was executed natively as well. Empty: nothing differs.
  void NoteBlockCheck(const std::string& difference);
  bool failed() const { return !status_.ok(); }
  // Waits for those threads other than `waiting` that have ended. The kernel tells of a first
  // thread's end only after that of all others.
  void TakeExits(pid_t waiting);
  // `thread` is about to make a system call, or it has returned: what progress is shown goes before
  // the program uses the terminal.
  void BeforeCall(pid_t thread, int64_t number, const uint64_t* arguments, const ReadMemory& read);
  void AfterCall(pid_t thread, int64_t number, const uint64_t* arguments, int64_t result,
                 const ReadMemory& read);
  // A task runs from now on that is not recorded.
  void NoteUnrecorded();
  // Flushes and shows progress now and then.
  void KeepHouse();
  bool flush_due() const;
  // Nobody else can run meanwhile: waiting costs nobody anything.
  bool alone() const { return tasks_.size() == 1 && native_.empty(); }
  // Threads are to run on the processor that the recorder runs on. Not those of a process that was
  // there before: should the recorder be killed, they would keep that.
  bool binds_threads() const { return options_.attach_pid == 0; }
  // Somebody else than `engine` wants a turn, or something has happened.
  bool OthersWait(const ThreadEngine* engine) const;
  // Some thread has chosen whether it may read the time-stamp counter: what rdtsc does is asked of
  // the processor from then on. Threads and processes inherit it.
  // A recorded process has written to the memory of one, itself perhaps, by way of /proc.
  bool writes_memory_files() const { return writes_memory_files_; }
  void NoteMemoryFileWritten() { writes_memory_files_ = true; }
  bool may_forbid_tsc() const { return may_forbid_tsc_; }
  void NoteTscForbidden() { may_forbid_tsc_ = true; }
  // Recording shall end, or the turn for another reason.
  bool end_wanted() const { return failed() || !end_reason_.empty(); }
  // A task made by `parent`, which is in the system call: nothing to record, a thread, or a
  // process. Its pid and whether it is recorded.
  struct NewTask {
    pid_t process = 0;
    bool is_thread = false;
    bool recorded = false;
  };
  NewTask OnNewTask(ThreadEngine* parent, RecordedProcess* process, const TraceeStop& stop,
                    uint64_t parent_count);
  // Ends the recording of the process that `thread` belongs to, if it is recorded.
  void LetGoOf(pid_t thread, const std::string& reason);
  // Runs a process natively whose recording pauses.
  void RunSuspended(RecordedProcess* process, absl::Span<const NativeThread> threads);
  void Remove(pid_t thread) { tasks_.erase(thread); }
  bool IsRecorded(pid_t process) const;  // now, not before or behind a gap
  ThreadEngine* Find(pid_t thread) const;

  // Where the recording of a process with this map is to stop.
  std::vector<uint64_t> StopPlaces(pid_t process, const AddressSpace& space);

  absl::StatusOr<std::unique_ptr<Cpu>> TakeCpu(Pager* pager);
  void GiveBack(std::unique_ptr<Cpu> cpu);

 private:
  using Clock = std::chrono::steady_clock;

  struct NativeProcess {
    pid_t process = 0;
    std::unique_ptr<BreakpointRun> run;
    RecordedProcess* suspended = nullptr;  // its recording, which pauses
    bool stopped = false;
  };

  // native_runs.cc
  absl::Status SetPlaces();
  bool ShallRecord(pid_t process) const;
  absl::Status Record(pid_t process, absl::Span<const NativeThread> threads);
  absl::Status RecordAgain(RecordedProcess* process, absl::Span<const NativeThread> threads);
  void RunNatively(pid_t process, absl::Span<const NativeThread> threads);
  bool OnNativeStatus(pid_t thread, int status);
  void OnNativeEvent(std::list<NativeProcess>::iterator native, const NativeEvent& event);
  void TickNatives();
  void LetNativesGo();

  // new_tasks.cc
  void AwaitBirth(pid_t task);
  absl::Status MakeProcess(ThreadEngine* parent, RecordedProcess* process, const TraceeStop& stop,
                           uint64_t parent_count);

  // recording.cc
  void Loop();
  bool TakeStops(bool block);
  void OnStatus(pid_t thread, int status);
  bool OnExec(ThreadEngine* engine, int status);
  bool RunReady();
  bool RunChosen();
  void Reap();
  void CheckLimits();
  void LetGo();
  void NoteRootExit(int status);
  bool OutlivesProgram() const;
  void WaitForRoot();
  void ShowProgress();
  RecordProgress Progress() const;

  const RecordOptions options_;
  HostAffinity host_affinity_;
  const MemoryModel model_;
  Sequence sequence_;
  TurnScheduler scheduler_;
  absl::Status status_;
  std::unique_ptr<TraceWriter> writer_;  // of the first process, until there is one
  Manifest manifest_;
  std::list<std::unique_ptr<RecordedProcess>> processes_;
  std::list<NativeProcess> native_;
  Symbols symbols_;
  std::optional<CodePlace> start_at_, stop_at_;
  RecordedProcess* root_ = nullptr;
  pid_t root_pid_ = 0;
  bool root_exited_ = false;
  bool may_forbid_tsc_ = false;
  bool writes_memory_files_ = false;
  Clock::time_point root_exit_time_;
  StopRequest stop_;
  TerminalUse terminal_use_;
  const std::shared_ptr<OpenedModules> module_files_ = std::make_shared<OpenedModules>();
  absl::flat_hash_map<pid_t, ThreadEngine*> tasks_;  // that live
  absl::flat_hash_map<pid_t, int> early_;            // stops of tasks not told of yet
  ForeignMappings foreign_mappings_{[this](pid_t process) { return IsRecorded(process); }};
  std::vector<std::unique_ptr<Cpu>> spare_cpus_;
  std::string end_reason_;
  Clock::time_point start_time_, last_flush_, last_progress_;
  RecordResult result_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_RECORDING_H_
