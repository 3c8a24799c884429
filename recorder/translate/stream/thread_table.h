// The recorded threads of a translated process, each with its ring, its log and its stream.
//
//   call that makes it ---> (open) --HS_ENTRY_BEGIN--> (recorded) --HS_ENTRY_END--> closed, its
//   ring
//                              \______ the process is gone, recording is over ______/   is free
//
// Borrows what it is made of. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TABLE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TABLE_H_

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "recorder/log/process_log.h"
#include "recorder/log/thread_log.h"
#include "recorder/log/thread_notes.h"
#include "recorder/process/scheduling.h"
#include "recorder/translate/stream/ring_reader.h"
#include "recorder/translate/stream/stream_merger.h"
#include "recorder/translate/stream/thread_stream.h"
#include "recorder/translate/stream/thread_turns.h"
#include "recorder/translate/stream/tsc_clock.h"

namespace hindsight {

class ThreadTable final : public StreamedThreads {
 public:
  // `rings`, by number, of `capacity` bytes each; null: there is none. Nobody has begun to use
  // them.
  ThreadTable(StreamedProcess* process, ProcessLog* log, Sequence* sequence, const TscClock* clock,
              absl::Span<HsRing* const> rings, uint64_t capacity);
  ThreadTable(const ThreadTable&) = delete;
  ThreadTable& operator=(const ThreadTable&) = delete;

  // The process's first thread writes into ring `ring`.
  absl::Status OpenFirst(uint64_t ring);

  // Logs what there is. True if that was something.
  absl::StatusOr<bool> Drain();
  // The process is gone: logs what is left, and the ends of threads that have not told theirs.
  absl::Status Finish();
  // Recording is over, though threads may go on.
  void Leave(const std::string& reason);
  // Throws away what is in the rings, so that nobody waits for room. Requires: Leave.
  void SkipAll();

  // So far, of all threads.
  uint64_t instructions() const;
  // The last state logged of the first thread. Requires: it is closed.
  uint64_t first_count() const { return first_count_; }

  absl::Status OnThread(int32_t maker, pid_t thread, uint64_t ring) override;
  void BeforeOrderable(ThreadStream* stream, uint64_t time) override { turns_.Next(stream, time); }

 private:
  struct Thread {
    Thread(ThreadTable* table, pid_t thread, int32_t maker);

    ThreadLog log;
    ThreadScheduling scheduling;
    ThreadNotes notes;
    ThreadStream stream;
  };

  absl::Status Open(pid_t thread, int32_t maker, uint64_t ring);
  void CloseAll();
  void Close(const Thread& thread);

  StreamedProcess* const process_;
  ProcessLog* const log_;
  Sequence* const sequence_;
  std::vector<std::unique_ptr<RingReader>> readers_;  // by the ring's number
  ThreadTurns turns_;
  std::list<Thread> threads_;
  StreamMerger merger_;
  uint64_t first_count_ = 0;
  uint64_t ended_instructions_ = 0;  // of threads that are closed
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TABLE_H_
