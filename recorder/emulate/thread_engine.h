// The engine `emulate` for one thread: runs a stopped thread's instructions in a Cpu, and only what
// a Cpu cannot do in the thread itself.
//
//           +--> Run -- kSpecial --> system call / native step / answered here --+
//           |     |                                                              |
//           |     +---- kFault ----> roll back, find the instruction, native step +
//           |     |                                                              |
//           |     +---- kLimit ----> signals, keyframes, end of the turn --------+
//           +--------------------------------------------------------------------+
//
// At a sync point the process's memory is that of the Cpu's state. Everything between two sync
// points can be done again from the earlier one: that is how faults are handled. Threads take
// turns; between its turns a thread is at a sync point, or in a system call.
//
// Borrows the engine and the process. Not copyable, not movable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_ENGINE_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "emulator/cpu/cpu.h"
#include "recorder/emulate/memory_hashes.h"
#include "recorder/emulate/pager/process_pager.h"
#include "recorder/emulate/recorded_process.h"
#include "recorder/emulate/sync_point.h"
#include "recorder/emulate/thread/call_in_flight.h"
#include "recorder/emulate/thread/kernel_words.h"
#include "recorder/emulate/thread/turn_clock.h"
#include "recorder/log/thread_log.h"
#include "recorder/log/thread_notes.h"
#include "recorder/process/scheduling.h"
#include "recorder/ptrace/affinity.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/syscalls/output_trust.h"
#include "recorder/syscalls/syscall_outputs.h"
#include "recorder/syscalls/syscall_traits.h"

namespace hindsight {

class EmulateEngine;

class ThreadEngine {
 public:
  enum class State : uint8_t {
    kReady,    // stopped: may have a turn
    kWaiting,  // runs in the process, or sleeps there; a stop will come
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
  // A turn would do something: it is ready, or the stop it waits for has come.
  bool wants_turn() const;
  uint64_t count() const { return cpu_ == nullptr ? 0 : cpu_->count(); }
  const ThreadLog& log() const { return log_; }
  Tracee& tracee() { return *tracee_; }
  ThreadAffinity& affinity() { return affinity_; }

  // Runs it for a turn: a quantum of instructions, or until it waits or has ended.
  void RunTurn();
  // The stop it waits for, as waitpid reported it; looked at in its next turn.
  void TakeStatus(int status) { pending_status_ = status; }
  // Its end, which needs no turn.
  void OnExit(int wait_status);

  // For full keyframes: ends the segment here and begins another. Requires: it has had a turn.
  TraceWriter::ThreadState NewSegment();
  bool begun() const { return cpu_ != nullptr; }
  // Starts its log without a turn: of threads that existed before they were recorded, all are in
  // the first full keyframe, whichever of them runs first.
  void StartWithoutTurn();
  // Job control has stopped it.
  void OnGroupStop();
  // Another thread of the process commits now: see CommitArea.
  void ParkForCommit();
  // From now on the process has more than one thread.
  void OnManyThreads();
  // These pages were changed in the process by the recorder.
  void Refresh(absl::Span<const uint64_t> pages);
  HostFeatures features_used() const;
  // Another thread has executed a program: this one is the process's only thread, and goes on in
  // it. `by` is that thread, or null where it is not recorded any more.
  void TakeOverExec(ThreadEngine* by);

  // Stops recording it for a while: it is stopped, and may be run natively. True if it lives.
  bool Suspend(const std::string& reason);
  // Records it again, from where it has got to. Requires: kNative and stopped.
  void Resume();
  // Ends its recording and says how it is to be detached. Empty `reason`: nothing is logged (the
  // trace cannot be written any more).
  void LetGo(const std::string& reason, std::vector<ThreadToDetach>* detach);

 private:
  // turns.cc
  void RunLegs(uint64_t begun_ns);
  TurnClock::Now Now() const;
  void LeaveSequence();
  TurnClock::Leg NextLeg(bool short_leg);
  void Turn();
  std::vector<uint64_t> PlacesSince(uint64_t first);
  bool EndNearPlace(uint64_t first);
  bool SignalIsDue();

  // thread_engine.cc
  void Begin();
  void BeginTurn();
  void UseOwedTime();
  void OnLimit();
  void RunOneNatively();
  void LightKeyframe();
  uint64_t LightKeyframeInterval() const;
  bool OthersMayStore() const;
  bool MayStore() const;
  void Sync();
  void ToProcess();

  // native_step.cc
  void OnSpecial();
  void Answer(const Instruction& instruction);
  // `reported`: what the thread has reported instead of having been resumed.
  void StepNatively(const Instruction& instruction, bool reload_map,
                    std::optional<TraceeStop> reported = std::nullopt);
  bool IsSparedWhileTraced(const TraceeStop& stop) const;
  bool NoteTrap(const Instruction& instruction);
  void FinishStep(const Instruction& instruction, bool reload_map);
  void OnFault(uint64_t block_count);
  bool StepUncached(const Instruction& instruction);
  bool RunBackTo(uint64_t count);

  // self_check.cc
  bool MayCheckBlock();
  void CheckBlock();
  void ScheduleCheck();

  // syscalls.cc
  void RunSystemCall();
  bool EndsAtCall();
  bool LeavesBefore(const CallInFlight& call);
  std::string ReasonNotToExec(const CallInFlight& call) const;
  std::string ReadPath(uint64_t address) const;
  void NoteNames();
  std::optional<TraceeStop> AwaitStop();
  void OnStop(TraceeStop stop);
  void OnCallStop(TraceeStop stop);
  bool OnSystemCallExit();
  void FinishSystemCall();
  void FinishExec();
  uint64_t LogCall(const CallInFlight& call, const RegisterFile& after);
  void LogForks();
  void ReportUntracedTask(int64_t task);
  void NoteAffinity();
  void OnNewTask(const TraceeStop& stop);

  // thread_effects.cc
  bool Resync(SyscallOutputs effects, ProcessPager::Compare compare = ProcessPager::Compare::kAll);
  void ResyncAfterCall(SyscallOutputs outputs);
  ProcessPager::Compare ComparedAfterCall(const SyscallOutputs& outputs);
  bool NoteTrust(const CallInFlight& call, const SyscallOutputs& outputs);
  FileKind KindOfCallsFile(const CallInFlight& call) const;
  void ResyncRseq();
  void TakeChangesOfOthers();
  void NoteUnknownMemory(const std::string& why);
  void ForgetMemory(const std::string& why);
  // Of a process made by vfork, whose memory is its maker's: gives account of what it has touched,
  // once. Requires: it does nothing more to it.
  void ReturnMemory();
  // The call has made such processes, all recorded, and they have returned its memory.
  bool TakeBackMemory();
  // The call has written to the memory of another process, which may be recorded.
  void NoteWritesToOther();
  SyscallOutputs OutputsOfCall(const CallInFlight& call, int64_t result) const;
  SyscallOutputs OutputsOfStep(const RegisterFile& before) const;
  SyscallOutputs OutputsOfFrame(const RegisterFile& handler) const;
  ReadMemory Reader() const;
  void PassTidAddress(pid_t task);
  // The thread may end in this call: looks up what the kernel stores then.
  void FindWordsAtEnd(const CallInFlight& call);
  // It has ended, or has left its memory.
  void NoteWordsAtEnd(RecordedProcess* process);

  // signals.cc
  TraceeStop ResumeAndWait(ResumeHow how, int signal);
  void NoteSignal(const TraceeStop& stop, const RegisterFile& after);
  void DeliverSignal(TraceeStop stop);
  void NoteInterruptedCall(const CallInFlight& call, const RegisterFile& handler);

  // ending.cc
  bool StopInCall();
  void OnVanished();
  void EndLog();

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
  bool follows_ = false;   // others_ is to be taken once the call that waited has been logged
  SyscallOutputs others_;  // of calls of other threads since the last turn, for pages not in use

  State state_ = State::kReady;
  std::optional<CallInFlight> call_;
  std::optional<int> pending_status_;
  bool listening_ = false;  // stopped by job control

  uint64_t emulated_ns_ = 0;  // that the kernel has not counted as its processor time
  uint64_t owed_ns_ = 0;      // of that, what it is to count

  bool held_at_call_ = false;        // the turn before ended at the system call at pc
  bool after_call_ = false;          // a system call was the last thing done
  bool runs_natively_next_ = false;  // for one instruction: the kernel has something to store
  bool yields_ = false;              // the program wants others to run
  uint64_t next_light_keyframe_ = ~uint64_t{0};
  uint64_t next_check_ = ~uint64_t{0};  // the state from which on a block is to be compared
  std::minstd_rand check_random_;       // seeded alike each time
  std::minstd_rand probe_random_;       // from the recording's seed
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_ENGINE_H_
