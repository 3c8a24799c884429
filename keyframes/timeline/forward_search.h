// Searches one thread forward: the first stop in a range of its states.
//
// Segments are replayed one after the other, stopping; where that goes on for long, several are
// searched at once for the next one that has something to stop for.
//
// Borrows everything. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_FORWARD_SEARCH_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_FORWARD_SEARCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keyframes/memory/memory_view.h"
#include "keyframes/replay/segment_search.h"
#include "keyframes/timeline/run_request.h"
#include "keyframes/timeline/thread_replay.h"
#include "keyframes/timeline/thread_stops.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// A stop of one thread, in its state `count`.
struct ThreadStop {
  RunStop stop;
  uint64_t count = 0;
};

class ForwardSearch {
 public:
  ForwardSearch(const TraceReader* trace, SegmentSearch* search, MemoryView* memory,
                ThreadReplay* replay, ThreadStops* stops)
      : trace_(trace), search_(search), memory_(memory), replay_(*replay), stops_(*stops) {}
  ForwardSearch(const ForwardSearch&) = delete;
  ForwardSearch& operator=(const ForwardSearch&) = delete;

  // The first stop in states from..limit - 1, or nullopt. `leave_first`: not the breakpoint it
  // starts on. kInterrupted: the thread stays where it got to. `request` is the one whose stops are
  // set.
  absl::StatusOr<std::optional<ThreadStop>> Run(const RunRequest& request, uint64_t from,
                                                uint64_t limit, bool leave_first);

 private:
  int32_t thread() const { return replay_.state().thread(); }
  absl::StatusOr<std::optional<ThreadStop>> TakeLeg(const RunRequest& request, LegEnd end,
                                                    const std::vector<WatchedImport>& imports);
  void RememberWatched();
  absl::Status EnterNextInteresting(const RunRequest& request, uint64_t limit,
                                    std::vector<WatchedImport>* imports);

  const TraceReader* const trace_;
  SegmentSearch* const search_;
  MemoryView* const memory_;
  ThreadReplay& replay_;
  ThreadStops& stops_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_FORWARD_SEARCH_H_
