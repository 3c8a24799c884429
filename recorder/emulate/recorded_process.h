// One recorded process: what its threads share, and its trace.
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

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "isa/host_features.h"
#include "recorder/log/module_table.h"
#include "recorder/log/page_witness.h"
#include "recorder/log/thread_log.h"
#include "recorder/process/address_space.h"
#include "recorder/process/vdso.h"
#include "recorder/ptrace/breakpoint_run.h"
#include "recorder/ptrace/commit_area.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/session/options.h"
#include "recorder/syscalls/syscall_outputs.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

class Recording;
class ThreadEngine;

class RecordedProcess {
 public:
  // `writer` is its trace, begun with `manifest`. `first` is its only thread, stopped.
  RecordedProcess(Recording* recording, std::unique_ptr<TraceWriter> writer, Manifest manifest,
                  std::unique_ptr<Tracee> first);
  ~RecordedProcess();
  RecordedProcess(const RecordedProcess&) = delete;
  RecordedProcess& operator=(const RecordedProcess&) = delete;

  pid_t pid() const { return manifest_.pid; }
  TraceWriter* writer() { return writer_.get(); }
  const Manifest& manifest() const { return manifest_; }
  const std::string& program() const { return program_; }
  ModuleTable& modules() { return modules_; }
  PageWitnesses& witnesses() { return witnesses_; }
  // What is mapped. Another one after an exec.
  std::shared_ptr<const AddressSpace> space() const { return space_; }
  // By which the process survives this one; null: it need not, or cannot.
  CommitArea* commit_area() const { return commit_area_.get(); }

  // Its threads, in the order they were made; those that have ended are gone.
  const std::list<std::unique_ptr<ThreadEngine>>& threads() const { return threads_; }
  ThreadEngine* Find(pid_t thread) const;
  ThreadEngine* AddThread(std::unique_ptr<Tracee> tracee, int32_t maker);
  // Forgets threads that have ended.
  void RemoveEnded();
  bool ended() const { return ended_; }
  uint64_t full_keyframes() const { return full_keyframes_; }
  const std::string& end_reason() const { return end_reason_; }
  int exit_status() const { return exit_status_; }  // as wait(2) reports it; -1: not known

  // A new image: where it is, what is mapped. Patches its vdso. `tracee` may read its memory.
  absl::Status OpenImage(Tracee* tracee);
  // After something that may have changed the memory map; logs a change at the thread's state.
  // `range`: nothing else has changed.
  absl::Status ReloadMap(Tracee* tracee, ThreadLog* log, uint64_t count,
                         std::optional<MemoryRange> range = std::nullopt);
  // Logs the whole map as the one from there on.
  void LogWholeMap(ThreadLog* log, uint64_t count);
  // Which of its shared mappings processes may write to that are not recorded changes, too.
  void FollowForeignMappings();
  void OnExec();
  // Where recording stops.
  const absl::flat_hash_set<uint64_t>& stop_places() const { return stop_places_; }

  // Writes a full keyframe of the present state. `with_memory` false: what it holds is known from
  // elsewhere. Requires: all threads are at sync points or in system calls, and `by`, which has
  // its turn, is synced.
  absl::Status WriteFullKeyframe(ThreadEngine* by, bool with_memory);
  bool full_keyframe_due() const;

  // Whose turn was last: another one must look at memory again, and is a new slice.
  // True if `thread`'s turn is a new slice of the timeline.
  bool StartsSlice(const ThreadEngine* thread) const;
  // Memory may have been changed by another thread or process since `thread`'s last turn.
  bool SharesMemory() const { return many_threads_ || shares_memory_; }
  bool SharesMemoryWithProcess() const { return shares_memory_; }
  void NoteTurn(ThreadEngine* thread) { last_thread_ = thread; }
  // When the last turn of any of its threads ended, in nanoseconds since the recording began.
  uint64_t last_turn_end_ns() const { return last_turn_end_ns_; }
  void NoteTurnEnd(uint64_t now_ns) { last_turn_end_ns_ = now_ns; }
  bool many_threads() const { return many_threads_; }
  void set_attached(bool attached) { attached_ = attached; }
  void set_shares_memory() { shares_memory_ = true; }
  // Others than its threads may write to its memory at any time.
  bool WrittenElsewhere() const { return asynchronous_writes || lends_memory_; }
  void set_lends_memory() { lends_memory_ = true; }
  // Whether its memory is changed only by itself and by its system calls, as they tell
  // (OutputTrust): it has been recorded since it began its program, and gives its memory to nobody.
  bool TrustsOutputs() const;
  // For good.
  void StopTrustingOutputs() { trusts_outputs_ = false; }
  // Its memory is that of the thread that made it, which waits.
  void set_borrows_memory() { borrows_memory_ = true; }
  bool borrows_memory() const { return borrows_memory_; }
  bool TakeBorrowed() { return std::exchange(borrows_memory_, false); }
  // What the kernel has stored for threads that have ended, since the last time this was asked.
  void NoteWritten(const MemoryRange& range) { written_.push_back(range); }
  bool has_written() const { return !written_.empty(); }
  std::vector<MemoryRange> TakeWritten() { return std::exchange(written_, {}); }

  // Its system calls are going to be restricted: the vdso makes none any more. `by` has its turn.
  absl::Status UnpatchVdso(ThreadEngine* by);
  std::optional<uint64_t> vdso_loop() const { return FindVdsoLoop(vdso_patches_); }
  void NoteExit(int wait_status, ThreadEngine* thread);
  // One of its threads is where recording is to stop: for good, or until it is where it starts.
  void ReachStop();
  // Goes on behind a gap with these threads, all of them.
  absl::Status ResumeRecording(absl::Span<const NativeThread> threads);
  // It has ended while its recording paused.
  void NoteNativeExit(int wait_status);
  // Once after ResumeRecording.
  bool TakeKeyframeWanted() { return std::exchange(keyframe_wanted_, false); }
  // Ends its recording; its threads run on alone.
  void LetGo(const std::string& reason);
  // Writes the manifest with what is known at the end.
  absl::Status Finish();

  bool asynchronous_writes = false;  // the kernel may write at any time
  bool stopped = false;              // by job control
  bool limits_time = false;          // a timer counts its processor time
  bool names_may_change = false;     // of threads, through /proc
  uint64_t emulated_ns = 0;          // of all its threads, that the kernel has not counted
  uint64_t instructions = 0;         // of threads that have ended
  uint64_t threads_made = 0;
  bool counted = false;   // in the recording's result
  uint64_t segments = 0;  // of threads that have ended

  // Adds up what a thread that ends, or has to end, leaves behind.
  void Count(const ThreadEngine& engine);
  // Of all its threads.
  uint64_t Instructions() const;

 private:
  void InstallCommitArea(pid_t thread);
  MapPart ReadMap(Tracee* tracee, std::optional<MemoryRange> range) const;
  std::shared_ptr<AddressSpace> MakeSpace() const;
  void LogMap(const MapPart& part, ThreadLog* log, uint64_t count);
  absl::Status NoteChangedFiles();

  Recording* const recording_;
  std::unique_ptr<TraceWriter> writer_;
  Manifest manifest_;
  std::string program_;  // the path of the image that runs
  ModuleTable modules_;
  PageWitnesses witnesses_;
  std::shared_ptr<AddressSpace> space_;
  uint64_t foreign_version_ = 0;  // that space_ has asked
  // Regions of the changes logged since the map was logged as a whole; kNoWholeMap: it was not.
  static constexpr size_t kNoWholeMap = ~size_t{0};
  size_t logged_regions_ = kNoWholeMap;
  absl::flat_hash_set<uint64_t> stop_places_;
  std::vector<uint64_t> auxv_;
  std::unique_ptr<CommitArea> commit_area_;
  std::list<std::unique_ptr<ThreadEngine>> threads_;
  ThreadEngine* last_thread_ = nullptr;
  uint64_t last_turn_end_ns_ = 0;
  bool many_threads_ = false;  // there was more than one at some time
  bool borrows_memory_ = false;
  bool lends_memory_ = false;  // to a process that runs at the same time
  bool trusts_outputs_ = true;
  std::vector<MemoryRange> written_;
  bool shares_memory_ = false;  // with the process that it was made by, or that it made
  uint64_t next_full_keyframe_ = ~uint64_t{0};
  uint64_t full_keyframes_ = 0;
  bool ended_ = false;
  int exit_status_ = -1;
  std::string end_reason_;
  bool attached_ = false;
  bool keyframe_wanted_ = false;
  std::vector<VdsoPatch> vdso_patches_;
  HostFeatures features_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_RECORDED_PROCESS_H_
