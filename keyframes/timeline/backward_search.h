// Searches one thread backward: the last stop before a state, found by replaying forward.
//
// The segment of that state is searched in windows that widen, each from a checkpoint; older
// segments are searched whole, several at once. Hits are first looked for without regard to
// conditions; only where there are any are the conditions evaluated, at one hit after the other.
//
// A segment does not know what watched memory held before the segment imported it: such imports are
// *pending* until an older segment ends with the same page, or, where none does, memory as the
// process knew it is compared.
//
// Borrows everything. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_BACKWARD_SEARCH_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_BACKWARD_SEARCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "keyframes/replay/segment_search.h"
#include "keyframes/timeline/run_request.h"
#include "keyframes/timeline/thread_replay.h"
#include "keyframes/timeline/thread_stops.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class BackwardSearch {
 public:
  // A stop, in the state before the transition (or at the breakpoint).
  struct Hit {
    uint64_t count = 0;
    bool is_watch = false;
    WatchHit watch;
    std::optional<size_t> breakpoint = std::nullopt;  // index, where a condition was evaluated
  };

  BackwardSearch(const TraceReader* trace, SegmentSearch* search, ThreadReplay* replay,
                 ThreadStops* stops)
      : trace_(trace), search_(search), replay_(*replay), stops_(*stops) {}
  BackwardSearch(const BackwardSearch&) = delete;
  BackwardSearch& operator=(const BackwardSearch&) = delete;

  // The last stop in states floor..before - 1, looked for down to `low` at least, or further if
  // that costs nothing: see searched_to(), also after kCancelled. `request` is the one whose stops
  // are set.
  absl::StatusOr<std::optional<Hit>> LastHitBefore(const RunRequest& request, uint64_t floor,
                                                   uint64_t low, uint64_t before);
  uint64_t searched_to() const { return searched_to_; }
  // What to report of a stop. Requires: the thread is there.
  RunStop DescribeHit(const RunRequest& request, const Hit& hit) const;

 private:
  absl::StatusOr<std::optional<Hit>> SearchWindows(const RunRequest& request, uint64_t floor,
                                                   uint64_t low, uint64_t before);
  absl::StatusOr<std::optional<Hit>> SearchSegments(const RunRequest& request, uint64_t floor,
                                                    uint64_t newest, uint64_t oldest);
  absl::StatusOr<std::optional<Hit>> TakeSegment(const RunRequest& request, const SegmentHits& hits,
                                                 uint64_t floor,
                                                 std::vector<WatchedImport>* pending);
  absl::StatusOr<std::optional<Hit>> ComparePending(const RunRequest& request,
                                                    const std::vector<WatchedImport>& endings,
                                                    std::vector<WatchedImport>* pending);
  absl::StatusOr<std::optional<Hit>> ComparePendingWithMemory(const RunRequest& request,
                                                              std::vector<WatchedImport>* pending);
  absl::StatusOr<std::optional<Hit>> Accept(const RunRequest& request, const HitTrace& trace,
                                            uint64_t low, uint64_t before);
  absl::StatusOr<std::optional<Hit>> AcceptWatch(const RunRequest& request, const HitTrace& trace,
                                                 uint64_t low, uint64_t before);
  absl::StatusOr<std::optional<Hit>> AcceptBreakpoint(const RunRequest& request, uint64_t low,
                                                      uint64_t last);
  absl::StatusOr<std::optional<WatchHit>> LastWatch(const HitTrace& trace, uint64_t low,
                                                    uint64_t before,
                                                    const std::atomic<bool>* interrupt);
  absl::StatusOr<std::optional<Hit>> ScanWatches(const RunRequest& request, uint64_t low,
                                                 uint64_t before);
  absl::StatusOr<std::optional<Hit>> AcceptHit(const RunRequest& request, const WatchHit& watch);
  absl::StatusOr<std::optional<WatchHit>> AcceptBeforeTransition(const RunRequest& request,
                                                                 const WatchHit& watch);

  const TraceReader* const trace_;
  SegmentSearch* const search_;
  ThreadReplay& replay_;
  ThreadStops& stops_;
  uint64_t searched_to_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_BACKWARD_SEARCH_H_
