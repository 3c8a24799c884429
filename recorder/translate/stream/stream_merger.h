// Hands the entries of several threads over to their streams, in the order in which they happened.
//
// Entries with a time stamp are handed over in its order, those without as soon as their thread's
// turn in the ring comes. An entry has to wait while another thread may still write an earlier one:
// that is, while that thread's ring is empty and it has taken a time stamp that is not in the ring
// yet. It is waited for some time only: it may have been stopped there. What is known to be earlier
// than whatever it may write does not wait.
//
// A stream that has ended is handed nothing more: what its ring has then is another thread's. So is
// what begins another thread in the ring of one that has vanished.
//
// Borrows readers, and streams until they have ended or Remove. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_STREAM_MERGER_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_STREAM_MERGER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/translate/stream/ring_reader.h"
#include "recorder/translate/stream/thread_stream.h"
#include "recorder/translate/stream/tsc_clock.h"

namespace hindsight {

class StreamMerger {
 public:
  // `now`: the clock of the time stamps.
  explicit StreamMerger(std::function<uint64_t()> now = &ReadTsc) : now_(std::move(now)) {}
  StreamMerger(const StreamMerger&) = delete;
  StreamMerger& operator=(const StreamMerger&) = delete;

  // Also while something is handed over.
  void Add(RingReader* reader, ThreadStream* stream) { rings_.push_back({reader, stream}); }
  void Remove(const ThreadStream* stream);
  // Nobody writes into its ring any more: who has been killed while he wrote holds nobody up.
  void NoteGone(const ThreadStream* stream);
  // What is in its ring has been handed over, or never will be.
  bool IsDrained(const ThreadStream* stream);

  // Hands over what can be now, for some milliseconds: where threads write as fast as this reads,
  // there would be no end to it. True if that was something. An error is that of one stream or
  // ring, which is handed nothing from then on.
  absl::StatusOr<bool> Drain();
  // Somebody is about to wait until what he tells is handed over: from now on, for a while, nobody
  // may be far ahead. Any host thread.
  void ExpectWaiting();

 private:
  struct Ring {
    RingReader* reader;
    ThreadStream* stream;
    bool broken = false;
    bool gone = false;
    bool foreign = false;     // what Peek has found is another stream's
    bool over = false;        // and so is all that comes
    uint64_t busy_since = 0;  // it may write an earlier entry, since then; 0: it may not
    uint64_t past = 0;        // what it writes from now on is later than this

    absl::StatusOr<const HsEntry*> Peek();
    // After Peek has returned null: something may still come.
    bool MayFill() const { return !broken && !gone && !over && !foreign; }
    absl::Status Consume(const HsEntry* entry);
  };
  // A ring by the time of its next entry.
  struct Head {
    uint64_t time;
    Ring* ring;
  };

  absl::StatusOr<bool> HandOver(Ring* ring, uint64_t until);
  absl::StatusOr<bool> TakeTurns();
  absl::StatusOr<uint64_t> LookAtAll();
  void Push(Head head);
  Head Pop();
  void RemoveEnded();
  bool HoldsUp(Ring* ring, uint64_t now);
  Ring* Find(const ThreadStream* stream);
  bool IsLongEnough(uint64_t now) const;

  void SetMostBehind();

  const std::function<uint64_t()> now_;
  std::atomic<uint64_t> hurry_until_ = 0;
  std::list<Ring> rings_;
  std::vector<Head> heads_;  // a heap, the earliest in front
  uint64_t began_ = 0;       // this Drain
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_STREAM_MERGER_H_
