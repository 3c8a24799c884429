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
// Borrows the recording and the process. Not copyable, not movable. One host thread.

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
#include "recorder/emulate/process_pager.h"
#include "recorder/emulate/recorded_process.h"
#include "recorder/log/thread_log.h"
#include "recorder/process/affinity.h"
#include "recorder/process/scheduling.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/syscalls/syscall_outputs.h"
#include "recorder/syscalls/syscall_traits.h"

namespace hindsight {

class Recording;

class ThreadEngine {
 public:
  enum class State : uint8_t {
    kReady,    // stopped: may have a turn
    kWaiting,  // runs in the process, or sleeps there; a stop will come
    kNative,   // is not recorded at present
    kEnded,
  };
  // A thread that is not alone gives others a turn after so many instructions on average, or more
  // where it has much memory to bring along, or a millisecond.
  static constexpr uint64_t kSharedQuantum = 100'000;

  // `tracee` is stopped. `maker`: the thread that made it, 0 if none is recorded.
  ThreadEngine(Recording* recording, RecordedProcess* process, std::unique_ptr<Tracee> tracee,
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
  // It existed before it was recorded: the recording begins with all such threads, whichever of
  // them runs first.
  void Appear();
  // Job control has stopped it before it is recorded.
  void StandStill() { OnGroupStop(); }
  // Another thread of the process commits now: see CommitArea.
  void AwaitCommit();
  // Another thread of the process exists from now on.
  void BeCareful();
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
  // A system call that is being made in the process.
  struct SystemCall {
    int64_t number = 0;
    uint64_t arguments[6] = {};
    ArgumentMemory memory;     // taken as the kernel is about to make it
    bool inside = false;       // behind the stop at its entry
    bool interrupted = false;  // what becomes of it shows later
    bool exec = false;
    std::vector<ProcessEvent> forks;  // to be told of when it has returned
    // Signals without a handler that came while it waited: told after it.
    std::vector<TraceeStop> passed_on;
  };

  static constexpr uint64_t kUnknownCpu = ~uint64_t{0};

  // turns.cc
  void RunLegs(uint64_t begun_ns);
  void LengthenTurn();
  bool TurnIsOver(uint64_t begun_ns);
  void LeaveSequence();
  RunOptions NextLeg();
  void Turn();
  void AdaptLeg(uint64_t ns);
  std::vector<uint64_t> PlacesSince(uint64_t first);
  bool EndNearPlace(uint64_t first);
  bool SignalIsDue();

  // thread_engine.cc
  void Begin();
  void BeginTurn();
  void NoteSlice();
  std::string Name() const;
  void PayTime();
  void OnLimit();
  void RunOneNatively();
  void LogStateHash();
  void LightKeyframe();
  uint64_t LightKeyframeInterval() const;
  bool OthersMayStore() const;
  bool MayStore() const;
  void Sync();
  void Reach(uint64_t count);
  void ToProcess();
  void Transition(RegisterFile after, RecordBody body);

  // native_step.cc
  void OnSpecial();
  void AnswerHere(const Instruction& instruction);
  // `reported`: what the thread has reported instead of having been resumed.
  void StepNatively(const Instruction& instruction, bool reload_map,
                    std::optional<TraceeStop> reported = std::nullopt);
  bool IsSparedWhileTraced(const TraceeStop& stop) const;
  bool NoteTrap(const Instruction& instruction);
  void FinishStep(const Instruction& instruction, bool reload_map);
  void OnFault(uint64_t block_count);
  bool StepUncached(const Instruction& instruction);
  bool BackToSync();
  bool RunBackTo(uint64_t count);

  // self_check.cc
  bool MayCheckBlock();
  void CheckBlock();
  void ScheduleCheck();

  // syscalls.cc
  void RunSystemCall();
  bool EndsAtCall();
  bool LeavesBefore(const SystemCall& call);
  std::string ReasonNotToExec(const SystemCall& call) const;
  std::string ReadPath(uint64_t address) const;
  void NoteNames();
  void NoteName();
  std::optional<TraceeStop> AwaitStop();
  void OnStop(TraceeStop stop);
  void OnCallStop(TraceeStop stop);
  bool OnSystemCallExit();
  void FinishSystemCall();
  void FinishExec();
  void NoteForks();
  void TellOfUntracedTask(int64_t task);
  void NoteAffinity();
  ProcessEvent CallEvent(EventKind kind, uint64_t sequence, const SystemCall& call,
                         const RegisterFile& after);
  static uint64_t CloneFlags(const SystemCall& call);
  void OnNewTask(const TraceeStop& stop);

  // thread_effects.cc
  bool Resync(SyscallOutputs effects, ProcessPager::Compare compare = ProcessPager::Compare::kAll);
  void ResyncAfterCall(SyscallOutputs outputs);
  ProcessPager::Compare ComparedAfterCall(const SyscallOutputs& outputs);
  void ResyncRseq();
  void FollowOthers();
  void NoteUnknownMemory(const std::string& why);
  void ForgetMemory(const std::string& why);
  // Of a process made by vfork, whose memory is its maker's: gives account of what it has touched,
  // once. Requires: it does nothing more to it.
  void ReturnMemory();
  // The call has made such processes, all recorded, and they have returned its memory.
  bool TakeBackMemory();
  // The call has written to the memory of another process, which may be recorded.
  void NoteWritesToOther();
  SyscallOutputs OutputsOfCall(const SystemCall& call, int64_t result) const;
  SyscallOutputs OutputsOfStep(const RegisterFile& before) const;
  SyscallOutputs OutputsOfFrame(const RegisterFile& handler) const;
  ReadMemory Reader() const;
  void NoteTidAddresses(pid_t task);
  // The thread may end in this call: looks up what the kernel stores then.
  void FindWordsAtEnd(const SystemCall& call);
  // It has ended, or has left its memory.
  void NoteWordsAtEnd(RecordedProcess* process);

  // signals.cc
  TraceeStop ResumeAndWait(ResumeHow how, int signal);
  void OnGroupStop();
  void NoteSignal(const TraceeStop& stop, const RegisterFile& after);
  void DeliverSignal(TraceeStop stop);
  void NoteInterruptedCall(const SystemCall& call, const RegisterFile& handler);

  // ending.cc
  bool StopInCall();
  void OnVanished();
  void EndLog();

  Recording* const recording_;
  RecordedProcess* const process_;
  std::unique_ptr<Tracee> tracee_;
  const int32_t maker_;
  ThreadLog log_;
  ProcessPager pager_;
  MemoryHashes memory_hashes_;
  std::unique_ptr<Cpu> cpu_;  // from the first turn on
  const ThreadScheduling scheduling_;
  ThreadAffinity affinity_;
  uint64_t scheduling_read_ns_ = 0;
  uint64_t host_cpu_ = kUnknownCpu;
  std::string name_;
  uint64_t rseq_ = 0;      // where its struct rseq is, 0: it has none
  bool follows_ = false;   // others_ is to be taken once the call that waited has been logged
  SyscallOutputs others_;  // of calls of other threads since the last turn, for pages not in use
  // Where the kernel stores the thread's id as it is born, and zero as it ends; 0: nowhere.
  uint64_t tid_at_birth_ = 0, tid_at_end_ = 0;
  std::vector<MemoryRange> words_at_end_;  // and those of mutexes that it still holds then

  State state_ = State::kReady;
  std::optional<SystemCall> call_;
  std::optional<int> pending_status_;
  bool listening_ = false;  // stopped by job control

  // The last sync point.
  uint64_t sync_count_ = 0;
  RegisterFile sync_registers_;
  std::vector<uint64_t> ordered_;  // states that orderable instructions were executed from
  uint64_t ordered_until_ = 0;     // those before are in the log

  uint64_t emulated_ns_ = 0;  // that the kernel has not counted as its processor time
  uint64_t owed_ns_ = 0;      // of that, what it is to count

  uint64_t leg_ = 20'000;            // instructions between two looks at the clock, if not alone
  uint64_t turn_ns_ = 1'000'000;     // what a turn may take, if not alone
  uint64_t turn_end_ = 0;            // the state in which the turn ends, if not alone
  uint64_t turn_end_ns_ = 0;         // or soon after this
  bool turn_alone_ = false;          // it was when that was set
  uint64_t signal_at_ = 0;           // a pending signal is taken in this state; 0: none is delayed
  bool held_at_call_ = false;        // the turn before ended at the system call at pc
  bool after_call_ = false;          // a system call was the last thing done
  bool runs_natively_next_ = false;  // for one instruction: the kernel has something to store
  bool yields_ = false;              // the program wants others to run
  bool exit_noted_ = false;
  uint64_t next_light_keyframe_ = ~uint64_t{0};
  uint64_t next_check_ = ~uint64_t{0};  // the state from which on a block is to be compared
  std::minstd_rand check_random_;       // seeded alike each time
  std::minstd_rand probe_random_;       // from the recording's seed
  // The last state whose hash was logged outside of a transition.
  uint64_t hashed_count_ = 0;
  RegisterFile hashed_registers_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_ENGINE_H_
