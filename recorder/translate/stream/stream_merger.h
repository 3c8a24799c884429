// Hands the entries of several threads over to their streams, in the order in which they happened.
//
// Entries with a time stamp are handed over in its order, those without as soon as their thread's
// turn in the ring comes. An entry has to wait while another thread may still write an earlier one:
// that is, while that thread's ring is empty and it has taken a time stamp that is not in the ring
// yet.
//
// A stream that has ended is handed nothing more: what its ring has then is another thread's.
//
// Borrows readers, and streams until RemoveEnded or Clear. Not copyable. One host
// thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_STREAM_MERGER_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_STREAM_MERGER_H_

#include <cstdint>
#include <functional>
#include <list>
#include <utility>

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
  void RemoveEnded();
  void Clear() { rings_.clear(); }

  // Hands over what can be now. True if that was something. An error is that of one stream or ring,
  // which is handed nothing from then on.
  absl::StatusOr<bool> Drain() { return Drain(/*all=*/false); }
  // The same when nobody writes any more: who has been killed while it wrote holds nobody up.
  absl::StatusOr<bool> DrainAll() { return Drain(/*all=*/true); }

 private:
  struct Ring {
    RingReader* reader;
    ThreadStream* stream;
    bool broken = false;

    absl::StatusOr<const HsEntry*> Peek();
    absl::Status Consume(const HsEntry* entry);
  };
  // The ring whose next entry is the earliest of all that there are and may come, also as long as
  // its entries are not later than `until`. Null: none is.
  struct Turn {
    Ring* ring = nullptr;
    uint64_t until = 0;
  };

  absl::StatusOr<bool> Drain(bool all);
  absl::StatusOr<bool> HandOver(Ring* ring, uint64_t until);
  absl::StatusOr<Turn> NextTurn(bool all);

  const std::function<uint64_t()> now_;
  std::list<Ring> rings_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_STREAM_MERGER_H_
