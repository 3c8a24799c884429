// The replay of one thread, across its segments: goes to the thread's states.
//
// All in counts; how the threads' counts make up one timeline is not known here. It stays in the
// state it was used in last, unless the pool takes its replay away: every move names its target.
//
// Borrows everything. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_REPLAY_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_REPLAY_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keyframes/replay/replay_pool.h"
#include "keyframes/replay/segment_replay.h"
#include "keyframes/state/thread_state.h"

namespace hindsight {

// What a replay stops for, as the Cpu knows it: without conditions.
struct PlainStops {
  absl::flat_hash_set<uint64_t> breakpoints;
  std::vector<Watchpoint> watchpoints;
};

class ThreadReplay {
 public:
  ThreadReplay(const ThreadState* state, ReplayPool* pool) : state_(*state), pool_(pool) {}
  ThreadReplay(const ThreadReplay&) = delete;
  ThreadReplay& operator=(const ThreadReplay&) = delete;

  const ThreadState& state() const { return state_; }
  // The replay of its present segment; null if it has none.
  SegmentReplay* here() const { return holder_.replay; }
  // Requires of these: it has a replay.
  uint64_t count() const { return here()->count(); }
  uint64_t segment_number() const { return here()->segment().info().number; }
  // As long as the result lives the pool does not take the replay away.
  ReplayPool::Pin Hold() { return ReplayPool::Pin(&holder_); }

  // Goes to a state of the thread. Registers are those of the state wherever it was before; see
  // GoBeforeTurn. kCancelled, somewhere on the way, if interrupted.
  absl::Status GoTo(uint64_t target, bool dense, const std::atomic<bool>* interrupt);
  // The same, but stays if the thread waits for its next turn in that state.
  absl::Status GoToOrBeforeTurn(uint64_t target, const std::atomic<bool>* interrupt);
  // To where the thread waits for its next turn in that state.
  absl::Status GoBeforeTurn(uint64_t target, const std::atomic<bool>* interrupt);
  absl::Status GoToEndOf(uint64_t segment, const std::atomic<bool>* interrupt);
  // Goes to the first state of a segment.
  absl::Status EnterSegment(uint64_t segment);
  // Requires: it is at the end of a segment, and another one begins there or after a gap.
  absl::Status EnterNextSegment() { return EnterSegment(segment_number() + 1); }
  // Takes the replay of a segment, in whatever state that is.
  absl::Status Enter(uint64_t segment);

  // The last watched access in states [low, before) of the segment, of which `trace` knows the
  // block: steps through that.
  absl::StatusOr<std::optional<WatchHit>> ResolveWatch(const PlainStops& stops,
                                                       const HitTrace& trace, uint64_t low,
                                                       uint64_t before,
                                                       const std::atomic<bool>* interrupt);

 private:
  const ThreadState& state_;
  ReplayPool* const pool_;
  ReplayPool::Holder holder_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_REPLAY_H_
