// One recorded process: what its threads share, and the beginning, pauses and end of its recording.
//
// It has more than 30 methods: besides accessors to its parts, pairs that note a fact in the turn
// of one thread and return it in that of another.
//
// Not copyable, not movable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_RECORDED_PROCESS_H_
#define HINDSIGHT_RECORDER_EMULATE_RECORDED_PROCESS_H_

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "recorder/emulate/memory_sharing.h"
#include "recorder/emulate/process_image.h"
#include "recorder/emulate/thread/cpu_time.h"
#include "recorder/log/page_witness.h"
#include "recorder/log/process_log.h"
#include "recorder/ptrace/breakpoint_run.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/session/snapshot_triggers.h"

namespace hindsight {

class EmulateEngine;
class ThreadEngine;

class RecordedProcess {
 public:
  // `log` is borrowed, and must outlive it. `first` is its only thread, stopped.
  RecordedProcess(EmulateEngine* engine, ProcessLog* log, std::unique_ptr<Tracee> first);
  ~RecordedProcess();
  RecordedProcess(const RecordedProcess&) = delete;
  RecordedProcess& operator=(const RecordedProcess&) = delete;

  pid_t pid() const { return log_->pid(); }
  ProcessLog& log() const { return *log_; }
  ProcessImage& image() { return image_; }
  MemorySharing& sharing() { return sharing_; }
  PageWitnesses& witnesses() { return witnesses_; }

  // Its threads, in the order they were made; those that have ended are gone.
  const std::list<std::unique_ptr<ThreadEngine>>& threads() const { return threads_; }
  ThreadEngine* Find(pid_t thread) const;
  ThreadEngine* AddThread(std::unique_ptr<Tracee> tracee, int32_t maker);
  // Forgets threads that have ended.
  void RemoveEnded();
  bool ended() const { return ended_; }
  // Its recording pauses, and it runs natively.
  bool paused() const { return paused_; }

  // It runs another program, of this path, whose image is to be opened.
  void OnExec(const std::string& program);

  // Writes a full keyframe of the present state. `with_memory` false: what it holds is known from
  // elsewhere. Requires: all threads are at sync points or in system calls, and `by`, which has
  // its turn, is synced.
  absl::Status WriteFullKeyframe(ThreadEngine* by, bool with_memory,
                                 std::optional<SnapshotReason> snapshot = std::nullopt);
  bool full_keyframe_due() const;
  // The same with memory, if a ring wants one, where system calls bring so much that it is due
  // before so many instructions are executed that it would be looked for. Errors are the session's.
  void WriteKeyframeIfWanted(ThreadEngine* by);
  // The same as a snapshot, if there are to be any more. Errors are the session's.
  void TakeSnapshot(ThreadEngine* by, SnapshotReason reason);
  // One by time or request.
  void TakeSnapshotIfDue(ThreadEngine* by);
  bool snapshot_due() const;

  // Whether a turn of `thread` is a new slice of the timeline: another had the last turn.
  bool StartsSlice(const ThreadEngine* thread) const;
  void NoteTurn(ThreadEngine* thread) { last_thread_ = thread; }
  // When the last turn of any of its threads ended, in nanoseconds since the recording began.
  uint64_t last_turn_end_ns() const { return last_turn_end_ns_; }
  void NoteTurnEnd(uint64_t now_ns) { last_turn_end_ns_ = now_ns; }
  // Whether its memory is changed only by itself and by its system calls, in the ranges that they
  // report (trusted_calls.h): it has been recorded since it began its program, and shares its
  // memory with no other process.
  bool TrustsOutputs() const;

  // Its system calls are about to be restricted: takes back the patches of its vdso, which make
  // more of them. `by` has its turn.
  absl::Status UnpatchVdso(ThreadEngine* by);
  void NoteExit(int wait_status, ThreadEngine* thread);
  // A thread has reached the place where recording stops: for good, or until one reaches the place
  // where it starts.
  void ReachStop();
  // Goes on after a gap with these threads, all of them.
  absl::Status ResumeRecording(absl::Span<const StoppedThread> threads);
  // It has ended while its recording paused.
  void NoteNativeExit(int wait_status);
  // Once after ResumeRecording.
  bool TakeKeyframeWanted() { return std::exchange(keyframe_wanted_, false); }
  // Ends its recording; its threads run on alone.
  void LetGo(const std::string& reason);
  // Adds up what the threads that are left have recorded. Requires: recording is over.
  void AddUpThreads();

  // Instructions executed by all of its threads.
  uint64_t Instructions() const;
  ProcessTime& time() { return time_; }
  // By job control.
  bool stopped() const { return stopped_; }
  void set_stopped(bool stopped) {
    stopped_ = stopped;
    if (!stopped) stopping_ = false;
  }
  // A signal that stops it has been delivered, and it has not gone on since.
  bool stopping() const { return stopping_; }
  // One without a handler is being delivered to a thread.
  void NoteSignal(int signal);
  // A thread has opened a file (/proc/PID/task/TID/comm) by which it may change another's name.
  bool names_may_change() const { return names_may_change_; }
  void set_names_may_change(bool may) { names_may_change_ = may; }

 private:
  void AddUp(const ThreadEngine& engine);

  EmulateEngine* const engine_;
  ProcessLog* const log_;
  MemorySharing sharing_;
  ProcessImage image_;
  PageWitnesses witnesses_;
  std::list<std::unique_ptr<ThreadEngine>> threads_;
  ThreadEngine* last_thread_ = nullptr;  // whose turn was last
  uint64_t last_turn_end_ns_ = 0;
  SnapshotTriggers::Seen snapshots_seen_;
  uint64_t next_full_keyframe_ = ~uint64_t{0};  // when it is due, in instructions
  ProcessTime time_;
  bool stopped_ = false;
  bool stopping_ = false;
  bool names_may_change_ = false;
  // Its recording:  goes on <--> paused_ --> ended_
  bool ended_ = false;
  bool paused_ = false;
  bool keyframe_wanted_ = false;  // it has just gone on after a pause
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_RECORDED_PROCESS_H_
