// The timeline of one thread: goes to its states and searches them for stops, both ways.
//
// All in counts; how the threads' counts make up one timeline is not known here. Its parts:
// where it is (thread_replay.h), what it looks for (thread_stops.h), and the searches.
//
// Borrows everything. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_TIMELINE_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_TIMELINE_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "keyframes/memory/memory_view.h"
#include "keyframes/replay/replay_pool.h"
#include "keyframes/replay/segment_search.h"
#include "keyframes/state/thread_state.h"
#include "keyframes/timeline/backward_search.h"
#include "keyframes/timeline/forward_search.h"
#include "keyframes/timeline/last_known.h"
#include "keyframes/timeline/thread_replay.h"
#include "keyframes/timeline/thread_stops.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class ThreadTimeline {
 public:
  struct Context {
    const TraceReader* trace = nullptr;
    ReplayPool* pool = nullptr;
    SegmentSearch* search = nullptr;
    MemoryView* memory = nullptr;
    ThreadHost* host = nullptr;
  };
  ThreadTimeline(const ThreadState* state, const Context& context);
  ThreadTimeline(const ThreadTimeline&) = delete;
  ThreadTimeline& operator=(const ThreadTimeline&) = delete;

  const ThreadState& state() const { return replay_.state(); }
  uint64_t count() const { return replay_.count(); }  // Requires: it has a replay
  ThreadReplay& replay() { return replay_; }
  // What the steps and searches look for.
  ThreadStops& stops() { return stops_; }
  ForwardSearch& forward() { return forward_; }
  BackwardSearch& backward() { return backward_; }

  // One transition on from, or back to before, the state `from`; count() says where that led, and
  // `hit` (if watchpoints are set) which of them it touched. False at the thread's ends.
  absl::StatusOr<bool> StepForward(uint64_t from, std::optional<WatchHit>* hit,
                                   const std::atomic<bool>* interrupt);
  absl::StatusOr<bool> StepBackward(uint64_t from, std::optional<WatchHit>* hit,
                                    const std::atomic<bool>* interrupt);

  // See last_known.h.
  absl::StatusOr<PageKnowledge> LastKnown(uint64_t page, const PageBits& bytes, uint64_t since,
                                          LastWrites* writes, const std::atomic<bool>* interrupt);
  // See first_stores.h.
  absl::Status FindStores(uint64_t from, bool goes_on, absl::Span<StoredLine> lines,
                          const std::atomic<bool>* interrupt);

 private:
  const TraceReader* const trace_;
  ThreadReplay replay_;
  ThreadStops stops_;
  ForwardSearch forward_;
  BackwardSearch backward_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_TIMELINE_H_
