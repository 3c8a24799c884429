// The recorded threads of a translated process, each with its ring, its log and its stream.
//
//   call that makes it --> (open) --HS_ENTRY_BEGIN--> (recorded) --HS_ENTRY_END--> closed
//                             \_______ the process is gone, recording is over ______/
//
//   closed: its ring is free
//   a program is executed: all are closed but the first one, which goes on in another ring
//
// Borrows what it is made of but for the rings. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TABLE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TABLE_H_

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/log/process_log.h"
#include "recorder/log/thread_log.h"
#include "recorder/log/thread_notes.h"
#include "recorder/process/scheduling.h"
#include "recorder/translate/stream/ring_set.h"
#include "recorder/translate/stream/stream_merger.h"
#include "recorder/translate/stream/thread_stream.h"
#include "recorder/translate/stream/thread_turns.h"
#include "recorder/translate/stream/tsc_clock.h"

namespace hindsight {

class ThreadTable final : public StreamedThreads {
 public:
  // `has_maker`: a recorded process has made this one.
  ThreadTable(StreamedProcess* process, ProcessLog* log, Sequence* sequence, const TscClock* clock,
              StreamMerger* merger, bool has_maker);
  ThreadTable(const ThreadTable&) = delete;
  ThreadTable& operator=(const ThreadTable&) = delete;
  ~ThreadTable();

  // The process's first thread writes into ring `ring` of `rings`; so do threads that it makes.
  absl::Status OpenFirst(std::shared_ptr<RingSet> rings, uint64_t ring);
  // The process has executed a program: its only thread writes into this one from now on.
  // Requires: DrainLast.
  absl::Status OpenProgram(std::shared_ptr<RingSet> rings, uint64_t ring);

  // After entries have been handed over: closes threads that have ended.
  void Settle();
  // The process is gone, or executes another program: logs what is left in its rings.
  absl::Status DrainLast();
  // ... and the ends of threads that have not told theirs. Requires: DrainLast.
  void Finish();
  // Recording is over, though threads may go on.
  void Leave(const std::string& reason);
  // Throws away what nobody reads.
  void SkipOthers();

  // So far, of all threads.
  uint64_t instructions() const;
  // The count in the trace of what the agent of thread `thread` counts as `count`.
  uint64_t CountOf(pid_t thread, uint64_t count) const;
  // The number of the call that thread `thread` is about to make in the state `count`, in the
  // trace's counting; 0: that is not known.
  uint64_t SequenceOfCall(pid_t thread, uint64_t count) const;
  // The last state logged of the first thread. Requires: it is closed.
  uint64_t first_count() const { return first_count_; }

  absl::Status OnThread(int32_t maker, pid_t thread, uint64_t ring) override;
  void BeforeTurn(ThreadStream* stream, uint64_t time) override { turns_.Next(stream, time); }
  void BeginTurn(ThreadStream* stream, uint64_t time) override {
    turns_.Next(stream, time, /*anew=*/true);
  }
  int32_t ThreadOf(uint64_t ring) const override;
  std::vector<TraceWriter::ThreadState> StandingStates() const override;
  uint64_t NsSince(uint64_t time) const override;
  bool IsOnly(const ThreadStream& stream) const override;
  void OnProgram() override;

 private:
  struct Thread {
    Thread(ThreadTable* table, pid_t thread, int32_t maker, uint64_t ring);

    uint64_t ring;
    bool has_ring = false;
    ThreadLog log;
    ThreadScheduling scheduling;
    ThreadNotes notes;
    ThreadStream stream;
  };

  absl::Status Open(pid_t thread, int32_t maker, uint64_t ring);
  absl::Status TakeRing(Thread* thread);
  void ReleaseRing(Thread* thread);
  void Close(Thread* thread);
  void CloseAll();
  bool IsFirst(const Thread& thread) const;

  StreamedProcess* const process_;
  ProcessLog* const log_;
  Sequence* const sequence_;
  const TscClock* const clock_;
  StreamMerger* const merger_;
  const bool has_maker_;
  std::shared_ptr<RingSet> rings_;
  ThreadTurns turns_;
  std::list<Thread> threads_;   // the first one is the process's first as long as it is recorded
  std::list<Thread> replaced_;  // by a program that is yet to begin
  absl::flat_hash_map<uint64_t, int32_t> writers_;  // by ring, the last one
  uint64_t first_count_ = 0;
  uint64_t ended_instructions_ = 0;  // of threads that are closed
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_THREAD_TABLE_H_
