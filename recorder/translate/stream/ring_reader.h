// Takes entries out of the ring that a translated thread writes (record_ring.h).
//
// The ring lies in the program's memory, which the program may write to: what is not a ring any
// more is an error, never a crash, and an entry is copied before anybody looks at it.
//
// Borrows the ring. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_RING_READER_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_RING_READER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/translate/stream/record_ring.h"

namespace hindsight {

class RingReader {
 public:
  // `capacity`: what the ring was made with.
  RingReader(HsRing* ring, uint64_t capacity) : ring_(ring), capacity_(capacity) {}
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  // The entry that is next, valid until Done; null while there is none.
  absl::StatusOr<const HsEntry*> Peek();
  // The entry that Peek returned is done with. The agent learns of it at the latest when Peek finds
  // nothing more.
  void Done();

  // Who waits for the entry that Peek has returned goes on, though it is not done with yet.
  void LetGo();

  // Everything that is in the ring, whatever it is, is done with.
  void SkipAll();

  // Who writes there is to end the segment that began in the state `begun` soon.
  void AskToEndSegment(uint64_t begun) const {
    __atomic_store_n(&ring_->large_segment, begun + 1, __ATOMIC_RELAXED);
  }

  // How the recorder numbers the thread that writes there; 0: as the call that made it says.
  pid_t thread() const { return __atomic_load_n(&ring_->thread, __ATOMIC_RELAXED); }

  // Who writes there waits for this side to come to what it has written.
  bool IsAwaited() const { return __atomic_load_n(&ring_->awaited, __ATOMIC_RELAXED) != 0; }
  // Whoever writes there is to be ahead of this side by no more than so many bytes, not less than
  // 160 KB; 0: by the capacity.
  void SetMostBehind(uint64_t bytes) {
    if (std::exchange(most_behind_, bytes) == bytes) return;
    __atomic_store_n(&ring_->most_behind, bytes, __ATOMIC_RELAXED);
  }

  // Nothing with a time stamp below that of now is to come, unless Peek finds it.
  bool IsQuiet() const;

 private:
  absl::Status Fetch();
  void MoveTail(uint64_t bytes);
  void PublishTail(uint64_t tail);

  HsRing* const ring_;
  const uint64_t capacity_;
  // As it was when all before it had been read: to look at it is to take a line of the cache from
  // the agent.
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t published_ = 0;               // what the agent sees of it
  uint64_t most_behind_ = ~uint64_t{0};  // not said yet
  bool has_entry_ = false;
  std::vector<uint64_t> entry_;  // a copy, and old bytes behind it
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_RING_READER_H_
