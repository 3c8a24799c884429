// The recording of one translated process: what its agent tells, on the way into its trace.
//
//   (made) --Attach--> (told of) --Finish, Abandon--> closed
//                        |    ^
//                        +----+ Replace: it has executed a program
//
// Borrows the session, the log that that has opened, and the merger. Not copyable, not movable. One
// host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_RECORDING_H_
#define HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_RECORDING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/unique_fd.h"
#include "recorder/log/process_log.h"
#include "recorder/process/pid_namespace.h"
#include "recorder/session/recording_session.h"
#include "recorder/translate/memo/guest_places.h"
#include "recorder/translate/memory_file.h"
#include "recorder/translate/stream/executed_pages.h"
#include "recorder/translate/stream/ring_set.h"
#include "recorder/translate/stream/stream_merger.h"
#include "recorder/translate/stream/thread_table.h"
#include "recorder/translate/stream/translated_process.h"
#include "recorder/translate/stream/tsc_clock.h"

namespace hindsight {

// Where a process writes into, and what it executes.
struct RecordedMemory {
  std::shared_ptr<MemoryFile> file;
  std::shared_ptr<RingSet> rings;  // in it
  std::shared_ptr<const ExecutedPages> code;
  bool borrowed = false;  // another process's, for a while (vfork)

  // Nobody answers who writes there any more.
  void LetGo() const { __atomic_store_n(&file->control()->leave, 1, __ATOMIC_RELEASE); }
};
// With new readers for the rings, which nobody has read from.
RecordedMemory MakeRecordedMemory(std::shared_ptr<MemoryFile> file,
                                  std::shared_ptr<const ExecutedPages> code);

class TranslatedRecording {
 public:
  // `log` is that of the process, whose manifest says who has made it; `places` are of all code
  // that is executed.
  TranslatedRecording(RecordingSession* session, ProcessLog* log, StreamMerger* merger,
                      const GuestPlaces* places, TranslatedProcess::OnMade on_made);
  TranslatedRecording(const TranslatedRecording&) = delete;
  TranslatedRecording& operator=(const TranslatedRecording&) = delete;

  // Its first thread writes into ring `ring`.
  absl::Status Attach(RecordedMemory memory, uint64_t ring);
  // There is none: the process runs without the agent, and is known by its program.
  void AttachNothing();
  // It has executed a program, and writes there from now on.
  absl::Status Replace(RecordedMemory memory, uint64_t ring);

  // If a snapshot is due by time or request, a thread is asked to take it.
  void AskForSnapshots();
  // After the merger has handed over what there was.
  void Settle();
  // The process is gone: logs what is left, and its end, as wait(2) reports it; nullopt: that is
  // not known to the recorder.
  absl::Status Finish(std::optional<int> wait_status);
  // Recording ends although the process goes on: what it tells from now on is drained and lost.
  void Abandon(const std::string& reason);

  // Its threads are to go on without the recorder.
  void LetGo() const {
    if (attached()) memory_.LetGo();
  }

  pid_t pid() const { return log_->pid(); }
  ProcessLog* log() const { return log_; }
  bool attached() const { return memory_.file != nullptr; }
  bool closed() const { return closed_; }
  // Closed though the process went on.
  bool abandoned() const { return closed_ && !log_->end_reason().empty(); }
  // What it executes.
  std::string program() const { return process_.program(); }
  const RecordedMemory& memory() const { return memory_; }
  // The process that it has made by a call that has returned `result`; 0: that is gone.
  pid_t FindChild(pid_t result) const { return namespace_.FindChild(pid(), result); }
  // Whether the process is gone.
  bool IsGone() const;
  // Processes that it has made are still to ask for their memory.
  bool HasChildrenToCome() const;

  uint64_t instructions() const { return threads_.instructions(); }
  uint64_t CountOf(pid_t thread, uint64_t count) const { return threads_.CountOf(thread, count); }
  // See ThreadTable.
  uint64_t SequenceOfCall(pid_t thread, uint64_t count) const {
    return threads_.SequenceOfCall(thread, count);
  }
  // It has made processes that are not recorded.
  bool has_children() const { return process_.has_children(); }
  // Why recording has ended, while the process goes on; empty: it has not.
  std::string ReasonLeft() const;

 private:
  int StatusAtEnd() const;
  std::optional<SnapshotReason> ReasonOf(const StreamedProcess::Stop& stop, pid_t thread);
  void CountMissedSnapshots();
  void AskForKeyframe();

  RecordingSession* const session_;
  ProcessLog* const log_;
  const UniqueFd pidfd_;
  const PidNamespace namespace_;
  RecordedMemory memory_;
  TranslatedProcess process_;
  TscClock clock_;
  ThreadTable threads_;
  SnapshotTriggers::Seen snapshots_seen_;
  bool closed_ = false;
  uint64_t asked_ns_ = 0;     // when it was last asked for a full keyframe; 0: never
  uint64_t asked_at_ = 0;     // how many there were
  uint64_t patience_ns_ = 0;  // until it is asked again if none comes
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_RECORDING_H_
