// The engine `emulate`: runs a stopped process's instructions in a Cpu, and only what a Cpu cannot
// do in the process itself.
//
//           +--> Run -- kSpecial --> system call / native step / answered here --+
//           |     |                                                              |
//           |     +---- kFault ----> roll back, find the instruction, native step +
//           |     |                                                              |
//           |     +---- kLimit ----> signals, keyframes, flush ------------------+
//           +--------------------------------------------------------------------+
//
// At a sync point the process's memory is that of the Cpu's state. Everything between two sync
// points can be done again from the earlier one: that is how faults are handled.
//
// Borrows everything it is made of. Not copyable, not movable. One host thread, the one that
// launched the process.

#ifndef HINDSIGHT_RECORDER_ENGINE_H_
#define HINDSIGHT_RECORDER_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "emulator/cpu.h"
#include "recorder/module_table.h"
#include "recorder/process_pager.h"
#include "recorder/record.h"
#include "recorder/syscall_traits.h"
#include "recorder/thread_log.h"
#include "recorder/tracee.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

class Engine {
 public:
  // `program` is the path of the image the process is about to run.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const RecordOptions& options,
                                                        std::string program, Tracee* tracee,
                                                        TraceWriter* writer);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Records from the process's present state to its end, or to where recording must end: then the
  // process runs on alone, and its end is waited for.
  absl::StatusOr<RecordResult> Run();

  uint64_t sequence() const { return log_.sequence(); }

 private:
  using Clock = std::chrono::steady_clock;

  Engine(const RecordOptions& options, std::string program, Tracee* tracee, TraceWriter* writer);

  // engine.cc
  absl::Status Start();
  void Turn();
  void OnLimit();
  void TakeSignal();
  void KeepHouse();
  void LogStateHash();
  RecordProgress Progress() const;
  void OpenImage();
  void ReloadMap();
  void LightKeyframe();
  void WriteFullKeyframe();
  void Sync();
  void ToProcess();
  void Transition(RegisterFile after, RecordBody body);
  std::string Position() const;

  // native_step.cc
  void OnSpecial();
  void AnswerHere(const Instruction& instruction);
  void StepNatively(const Instruction& instruction, bool reload_map);
  void FinishStep(const Instruction& instruction);
  void OnFault(uint64_t block_count);
  bool BackToSync();
  bool RunBackTo(uint64_t count);

  // syscalls.cc
  struct SystemCall {
    int64_t number = 0;
    uint64_t arguments[6] = {};
    bool exec = false;
    // Signals without a handler that came while it waited: told after it.
    std::vector<TraceeStop> passed_on;
  };
  void RunSystemCall();
  bool OnSystemCallExit(SystemCall* call);
  void FinishSystemCall(const SystemCall& call);
  void FinishExec(const SystemCall& call);
  NewTask TaskMadeByCall(const SystemCall& call);

  // signals.cc
  TraceeStop ResumeAndWait(ResumeHow how, int signal);
  void NoteSignal(const TraceeStop& stop, const RegisterFile& after);
  void DeliverSignal(TraceeStop stop, const SystemCall* interrupted);
  void NoteInterruptedCall(const SystemCall& call, const RegisterFile& handler);

  // ending.cc
  void OnExit(int wait_status);
  void OnVanished();
  void LeaveAlone(const std::string& what);

  const RecordOptions options_;
  std::string program_;  // the path of the image that runs
  Tracee* const tracee_;
  TraceWriter* const writer_;
  ThreadLog log_;
  ModuleTable modules_;
  ProcessPager pager_;
  std::unique_ptr<Cpu> cpu_;
  std::vector<uint64_t> auxv_;

  // The last sync point.
  uint64_t sync_count_ = 0;
  RegisterFile sync_registers_;

  bool after_call_ = false;           // a system call was the last thing done
  bool asynchronous_writes_ = false;  // the kernel may write at any time
  bool ended_ = false;
  uint64_t next_light_keyframe_ = ~uint64_t{0};
  uint64_t next_full_keyframe_ = ~uint64_t{0};
  uint64_t full_keyframes_ = 0;
  uint64_t sequence_count_ = 0;  // the state the last orderable event led to
  // The last state whose hash was logged outside of a transition.
  uint64_t hashed_count_ = 0;
  RegisterFile hashed_registers_;
  Clock::time_point start_time_, last_flush_, last_progress_;
  RecordResult result_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_ENGINE_H_
