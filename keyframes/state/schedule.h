// The order in which the threads of a process ran: slices, one after the other.
//
// A slice is a run of one thread from one of its states to another; a *moment* is the number of
// transitions that all threads together have made before it. The slices come from the trace's
// events (kSlice); what they leave out - a process of one thread has none, a thread may begin
// before its first - is filled in, and what a damaged or unfinished trace has too much is cut off,
// always in the same way. So moments 0..end_moment() lead through every state of every thread once.
//
// Value type. Immutable after Create.

#ifndef HINDSIGHT_KEYFRAMES_STATE_SCHEDULE_H_
#define HINDSIGHT_KEYFRAMES_STATE_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "tracefmt/records.h"

namespace hindsight {

struct Slice {
  uint64_t moment = 0;  // where it begins
  uint64_t count = 0;   // the state of the thread there
  uint64_t length = 0;  // transitions; may be 0
  uint64_t sequence = 0;
  int32_t thread = 0;
};

class Schedule {
 public:
  struct ThreadRange {
    int32_t thread = 0;
    uint64_t begin_count = 0;
    uint64_t end_count = 0;
    uint64_t first_sequence = 0;  // where it begins among the slices, if these do not say
    // It ran before, and the trace has only its slices of then: they have no length, and no state
    // of the thread is in them.
    bool begins_late = false;
  };
  // `threads`: at least one; the first one begins the recording. `slices`: the kSlice events.
  // What does not fit is repaired and reported in `warnings` (may be null).
  static Schedule Create(absl::Span<const ThreadRange> threads,
                         absl::Span<const ProcessEvent* const> slices,
                         std::vector<std::string>* warnings);

  uint64_t end_moment() const { return end_moment_; }
  const std::vector<Slice>& slices() const { return slices_; }
  // Indices into slices(), ascending. Requires: the trace has the thread.
  const std::vector<uint32_t>& slices_of(int32_t thread) const;

  // Index of the slice that makes the transition out of `moment`; at the end that of the last one.
  size_t SliceAt(uint64_t moment) const;
  int32_t ThreadAt(uint64_t moment) const { return slices_[SliceAt(moment)].thread; }
  // The state of `thread` at `moment`: its first one before it has begun.
  uint64_t CountAt(int32_t thread, uint64_t moment) const;
  // The moment at which `thread` is in the state `count` and makes the transition out of it; for
  // its last state, the first moment at which it is in that.
  uint64_t MomentFrom(int32_t thread, uint64_t count) const;
  // Index of the slice of `thread` in which something came in the state `count`: 0 the one that led
  // to it, otherwise the `turn`-th that begins in it (several may), or the last one of these; if
  // none does, the one that makes the transition out of it. See PageImport::turn.
  size_t TurnIn(int32_t thread, uint64_t count, uint8_t turn) const;
  // The first moment at which `thread` is in the state `count`.
  uint64_t MomentTo(int32_t thread, uint64_t count) const;
  // The index of the first slice of `thread` that begins after `moment`, or slices().size().
  size_t NextSliceOf(int32_t thread, uint64_t moment) const;
  // The slice with the greatest number at or below `sequence`, or slices().size().
  size_t SliceOfSequence(uint64_t sequence) const;

 private:
  std::vector<Slice> slices_;  // ascending moments and numbers
  absl::flat_hash_map<int32_t, std::vector<uint32_t>> by_thread_;
  uint64_t end_moment_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_SCHEDULE_H_
