// Hands the entries of several threads over to their streams, in the order in which they happened.
//
// Entries with a time stamp are handed over in its order, those without as soon as their thread's
// turn in the ring comes. An entry has to wait while another thread may still write an earlier one:
// that is, while that thread's ring is empty and it has taken a time stamp that is not in the ring
// yet.
//
// Borrows readers and streams. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_STREAM_MERGER_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_STREAM_MERGER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "recorder/translate/stream/ring_reader.h"
#include "recorder/translate/stream/thread_stream.h"

namespace hindsight {

class StreamMerger {
 public:
  StreamMerger() = default;
  StreamMerger(const StreamMerger&) = delete;
  StreamMerger& operator=(const StreamMerger&) = delete;

  void Add(RingReader* reader, ThreadStream* stream) { rings_.push_back({reader, stream}); }
  void Remove(const ThreadStream* stream);

  // Hands over what can be now. True if that was something. An error is that of one stream or ring,
  // which is handed nothing from then on.
  absl::StatusOr<bool> Drain();

 private:
  struct Ring {
    RingReader* reader;
    ThreadStream* stream;
    bool broken = false;
  };

  absl::StatusOr<bool> HandOverUntimed(Ring* ring);
  absl::StatusOr<Ring*> Earliest();

  std::vector<Ring> rings_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_STREAM_MERGER_H_
