// The engine `emulate` for one thread: the loop that runs a stopped thread's instructions in a Cpu,
// and in the thread itself only what a Cpu cannot do.
//
//           +--> Run -- kSpecial --> system call / native step / answered here --+
//           |     |                                                              |
//           |     +---- kFault ----> roll back, find the instruction, native step +
//           |     |                                                              |
//           |     +---- kLimit ----> signals, keyframes, end of the turn --------+
//           +--------------------------------------------------------------------+
//
// Threads take turns; between its turns a thread is at a sync point (sync_point.h), or in a system
// call (call_in_flight.h).
//
//   kReady ------ RunSystemCall, OnGroupStop ------> kWaiting
//     ^                                                 |
//     +----------------- OnStop, of its stop -----------+
//   both <-- Suspend, Resume --> kNative;  any -- OnExit, Detach --> kEnded
//
// The limit of methods and fields does not hold here: what has a purpose of its own is a class
// already (sync/, thread/), and the rest are the steps of one loop, which all use the Cpu, the
// tracee and the state.
//
// Borrows the engine and the process. Not copyable, not movable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_ENGINE_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/cpu/cpu.h"
#include "recorder/emulate/pager/process_pager.h"
#include "recorder/emulate/process_writers.h"
#include "recorder/emulate/recorded_process.h"
#include "recorder/emulate/sync/chaos_points.h"
#include "recorder/emulate/sync/disturbed_call.h"
#include "recorder/emulate/sync/memory_hashes.h"
#include "recorder/emulate/sync/sync_point.h"
#include "recorder/emulate/sync/thread_memory.h"
#include "recorder/emulate/sync/transition_log.h"
#include "recorder/emulate/thread/call_in_flight.h"
#include "recorder/emulate/thread/check_schedule.h"
#include "recorder/emulate/thread/cpu_time.h"
#include "recorder/emulate/thread/kernel_words.h"
#include "recorder/emulate/thread/segment_schedule.h"
#include "recorder/emulate/thread/tracee_stops.h"
#include "recorder/emulate/thread/turn_clock.h"
#include "recorder/log/thread_log.h"
#include "recorder/log/thread_notes.h"
#include "recorder/process/scheduling.h"
#include "recorder/ptrace/affinity.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/syscalls/syscall_outputs.h"
#include "recorder/syscalls/syscall_traits.h"

namespace hindsight {

class EmulateEngine;

class ThreadEngine {
 public:
  enum class State : uint8_t {
    kReady,    // stopped: may have a turn
    kWaiting,  // runs in the process, or sleeps there: a stop will come
    kNative,   // is not recorded at present
    kEnded,
  };
  // `tracee` is stopped. `maker`: the thread that made it, 0 if none is recorded.
  ThreadEngine(EmulateEngine* engine, RecordedProcess* process, std::unique_ptr<Tracee> tracee,
               int32_t maker);
  ~ThreadEngine();
  ThreadEngine(const ThreadEngine&) = delete;
  ThreadEngine& operator=(const ThreadEngine&) = delete;

  pid_t thread() const { return tracee_->thread(); }
  State state() const { return state_; }
  // It is ready, if only to join a group stop, or the stop it waits for has come.
  bool wants_turn() const;
  uint64_t count() const { return cpu_ == nullptr ? 0 : cpu_->count(); }
  const ThreadLog& log() const { return log_; }
  Tracee& tracee() { return *tracee_; }
  ThreadAffinity& affinity() { return affinity_; }
  ThreadMemory& memory() { return memory_; }

  // Runs it for a turn: a quantum of instructions, or until it waits or has ended.
  void RunTurn();
  // The stop it waits for, as waitpid reported it; looked at in its next turn.
  void TakeStatus(int status) { stops_.Report(status); }
  // Ends the call that it waits in if that was made again and its time is over.
  void EndCallIfOver();
  // Whether it is in a call that waits for a child of vfork.
  bool WaitsForChild() const;
  // Its end, which needs no turn.
  void OnExit(int wait_status);

  // For full keyframes: ends the segment here and begins another. Requires: it has had a turn.
  TraceWriter::ThreadState NewSegment();
  bool begun() const { return cpu_ != nullptr; }
  // Starts its log without a turn: of threads that existed before they were recorded, all are in
  // the first full keyframe, whichever of them runs first.
  void StartWithoutTurn();
  // Takes a snapshot if one is due by time, or was asked for from outside. Requires: all threads
  // are at sync points or in system calls.
  void SnapshotIfDue();
  // Job control has stopped it.
  void OnGroupStop();
  // Another thread of the process commits now: see CommitArea.
  void ParkForCommit();
  // From now on the process has more than one thread.
  void OnManyThreads();
  // These pages were changed in the process by the recorder.
  void ResyncPages(absl::Span<const uint64_t> pages);
  HostFeatures features_used() const;
  // Another thread, `by`, has executed a program: this one, now the process's only thread, goes on
  // in it. Null: `by` is not recorded any more.
  void TakeOverExec(ThreadEngine* by);

  // Stops recording it for a while: it is stopped, and may be run natively. True if it lives.
  bool Suspend(const std::string& reason);
  // Records it again, from where it has got to. Requires: kNative and stopped.
  void Resume();
  // Ends its recording, and adds to `detach` how it is to be detached. Empty `reason`: nothing is
  // logged (the trace cannot be written any more).
  void Detach(const std::string& reason, std::vector<ThreadToDetach>* detach);

 private:
  // turns.cc
  void RunLegs(uint64_t begun_ns);
  TurnClock::Now Now() const;
  bool InSequence() const;
  void LeaveSequence();
  TurnClock::Leg NextLeg(bool short_leg);
  void Turn();
  bool EndEarlier(uint64_t first);

  // thread_engine.cc
  void Begin();
  void BeginTurn();
  void BeginSliceIfDue();
  void UseOwedTime();
  void OnLimit();
  void RunOneNatively();
  void LightKeyframe();
  bool OthersMayStore() const;
  bool MayStore() const;
  void Sync();
  void CommitToProcess();
  // After something that may have changed the memory map; if `range` is given, only there.
  void ReloadMap(std::optional<MemoryRange> range = std::nullopt);

  // native_step.cc
  void OnSpecial();
  void Answer(const Instruction& instruction);
  // `reported`: a stop to begin with, in place of resuming the thread.
  void StepNatively(const Instruction& instruction, bool reload_map,
                    std::optional<TraceeStop> reported = std::nullopt);
  bool SurvivesFaultsWhileTraced(const TraceeStop& stop) const;
  bool LogTrap(const Instruction& instruction);
  void FinishStep(const Instruction& instruction, bool reload_map);
  void OnFault(uint64_t block_count);
  bool StepUncached(const Instruction& instruction);
  bool RunBackTo(uint64_t count);

  // thread_snapshots.cc
  void SnapshotAfterCall(const CallInFlight& call);
  void SnapshotBeforeSignal(int signal);
  void SnapshotAtPlace();

  // self_check.cc
  bool MayCheckBlock();
  void CheckBlock();

  // syscalls.cc
  void RunSystemCall();
  bool EndsTurnAtCall();
  bool MustWaitToTrace(const CallInFlight& call);
  bool EndsRecordingBefore(const CallInFlight& call);
  void LogNameChanges();
  std::optional<TraceeStop> AwaitStop();
  void OnStop(TraceeStop stop);
  void OnCallStop(TraceeStop stop);
  bool OnSystemCallExit();
  void FinishSystemCall();
  void FinishExec();
  void ReportUntracedTask(int64_t task);
  void FollowAffinityCall();
  void OnNewTask(const TraceeStop& stop);

  // thread_effects.cc
  void ResyncAfterCall(SyscallOutputs outputs);
  void NoteUnknownMemory(const std::string& why);
  void ForgetMemory(const std::string& why);
  // In a process made by vfork, which uses its maker's memory: reports to the maker what it may
  // have written, once. Requires: it writes no more.
  void ReturnBorrowedMemory();
  // Whether the call has made such processes, all recorded: their reports are taken.
  bool TakeBackLentMemory();
  // After process_vm_writev: reports the writes to the other process, if that is recorded.
  void ShareRemoteWrites();
  SyscallOutputs OutputsOfCall(const CallInFlight& call, int64_t result) const;
  void PassTidAddress(pid_t task);
  // If the thread may end in this call: looks up the mutexes that the kernel will mark then.
  void FindRobustMutexes(const CallInFlight& call);
  // The thread has ended, or has left its memory: reports what the kernel has stored for it.
  void ShareWordsAtEnd(RecordedProcess* process);

  // signals.cc
  TraceeStop ResumeAndWait(ResumeHow how, int signal);
  void JoinGroupStop();
  bool IsStoppedAgain();
  void DeliverSignal(TraceeStop stop);

  // ending.cc
  void OnVanished();
  void LogHeldSignals();
  void EndLog();
  bool IsExiting() const;
  void LogWordsAtEnd();

  EmulateEngine* const engine_;
  RecordedProcess* const process_;
  std::unique_ptr<Tracee> tracee_;
  const int32_t maker_;
  ThreadLog log_;
  ProcessPager pager_;
  MemoryHashes memory_hashes_;
  std::unique_ptr<Cpu> cpu_;  // from the first turn on
  SyncPoint sync_;
  TurnClock clock_;
  const ThreadScheduling scheduling_;
  ThreadNotes notes_;
  ThreadAffinity affinity_;
  KernelWords kernel_words_;
  ProcessWriters writers_;
  ThreadMemory memory_;
  TraceeStops stops_;
  UncountedTime time_;
  TransitionLog transitions_;
  DisturbedCall disturbed_;
  ChaosPoints chaos_;
  CheckSchedule checks_;
  SegmentSchedule segments_;

  State state_ = State::kReady;
  std::optional<CallInFlight> call_;
  uint64_t place_passed_ = ~uint64_t{0};  // a snapshot was taken in this state, for where it is
  bool held_at_call_ = false;             // the turn before ended at the system call at pc
  int waits_to_trace_ = 0;                // turns before that system call
  // What was last was a system call, a group stop or the start: a signal may come first.
  bool after_call_ = false;
  bool runs_natively_next_ = false;  // for one instruction: the kernel has something to store
  bool yields_ = false;              // the turn ends here: others are to run
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_ENGINE_H_
