// The timeline of one thread: the inside of Timeline.
//
// A few segments are kept replayed at once, each with its checkpoints, so that going to and fro
// over the border of two costs nothing. `here_` is the one the timeline stands in.

#ifndef HINDSIGHT_KEYFRAMES_THREAD_TIMELINE_H_
#define HINDSIGHT_KEYFRAMES_THREAD_TIMELINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "keyframes/memory_view.h"
#include "keyframes/process_state.h"
#include "keyframes/replayer.h"
#include "keyframes/run_request.h"
#include "keyframes/segment_search.h"
#include "keyframes/thread_state.h"

namespace hindsight {

class ThreadTimeline {
 public:
  struct Options {
    uint64_t checkpoint_bytes = 0;
    uint64_t view_cache_bytes = 0;
    int search_threads = 0;
  };
  ThreadTimeline(const TraceReader* trace, const ProcessState* process, int32_t thread,
                 const Options& options);

  // Moving. These leave the timeline where it was, or as documented in timeline.h, on errors.
  absl::Status Start();
  absl::Status GoTo(uint64_t target, bool dense, const std::atomic<bool>* interrupt);
  absl::StatusOr<bool> StepForward();
  absl::StatusOr<bool> StepBackward();
  absl::StatusOr<RunStop> Run(const RunRequest& request);
  uint64_t MomentOf(uint64_t count) const { return count - state_.begin_count(); }
  absl::StatusOr<size_t> ReadMemory(uint64_t address, absl::Span<uint8_t> out);

  uint64_t count() const { return here_->count(); }
  bool at_begin() const { return count() == state_.begin_count(); }
  bool at_end() const { return count() == state_.end_count(); }

  // A stop found on the way back, in the state before the transition (or at the breakpoint).
  struct Hit {
    uint64_t count = 0;
    bool is_watch = false;
    WatchHit watch;
    std::optional<size_t> breakpoint = std::nullopt;  // index, where a condition was evaluated
  };
  // A system call, signal or exec that stops a run, known without replay.
  struct EventStop {
    uint64_t count = 0;
    RunStop stop;
  };

  // Reading of a run request.
  void SetStops(const RunRequest& request);
  void ClearStops();
  bool Raised(const RunRequest& request) const {
    return request.interrupt != nullptr && request.interrupt->load(std::memory_order_relaxed);
  }
  // Index of the first breakpoint at pc whose condition holds.
  std::optional<size_t> MatchingBreakpoint(const RunRequest& request);
  bool WatchHolds(const RunRequest& request, size_t index) const;
  RunStop WatchStop(const RunRequest& request, const WatchHit& hit) const;
  std::optional<EventStop> NextEventStop(const RunRequest& request, uint64_t after) const;
  std::optional<EventStop> NextSignalOrSyscallStop(const RunRequest& request, uint64_t after) const;
  std::optional<EventStop> PreviousSignalOrSyscallStop(const RunRequest& request,
                                                       uint64_t before) const;
  std::optional<EventStop> PreviousEventStop(const RunRequest& request, uint64_t before) const;
  std::optional<RunStop> EventStopAt(const RunRequest& request, uint64_t count) const;

  // Running forward (timeline_forward.cc).
  absl::StatusOr<RunStop> RunForward(const RunRequest& request);
  absl::StatusOr<std::optional<RunStop>> RunForwardTo(const RunRequest& request, uint64_t limit);
  absl::StatusOr<RunStop> StepRange(const RunRequest& request);
  // A watched page that came into the view with other bytes than were known of it before.
  absl::StatusOr<std::optional<WatchHit>> ChangedImport(const std::vector<WatchedImport>& imports);
  absl::StatusOr<bool> StepWatching(std::optional<WatchHit>* hit);
  absl::StatusOr<bool> StepBackWatching(std::optional<WatchHit>* hit);
  absl::Status EnterSegment(uint64_t number);
  absl::Status EnterNextSegment();
  absl::Status EnterNextInteresting(const RunRequest& request, uint64_t limit,
                                    std::vector<WatchedImport>* imports);
  absl::Status EnterLaterSegment();
  void RememberWatched();

  // Running backward (timeline_backward.cc).
  absl::StatusOr<RunStop> RunBackward(const RunRequest& request);
  absl::StatusOr<std::optional<Hit>> LastHitBefore(const RunRequest& request, uint64_t floor,
                                                   uint64_t before);
  absl::StatusOr<std::optional<Hit>> SearchWindows(const RunRequest& request, uint64_t floor,
                                                   uint64_t before);
  absl::StatusOr<std::optional<Hit>> SearchSegments(const RunRequest& request, uint64_t floor,
                                                    uint64_t newest);
  absl::StatusOr<std::optional<Hit>> Resolve(const HitTrace& trace, uint64_t low, uint64_t before);
  absl::StatusOr<std::optional<WatchHit>> ResolveWatch(const HitTrace& trace, uint64_t low,
                                                       uint64_t before);
  absl::StatusOr<std::optional<Hit>> ResolvePending(const RunRequest& request,
                                                    const std::vector<WatchedImport>& endings,
                                                    std::vector<WatchedImport>* pending);
  absl::StatusOr<std::optional<Hit>> ResolvePendingByMemory(const RunRequest& request,
                                                            std::vector<WatchedImport>* pending);
  absl::StatusOr<std::optional<Hit>> Accept(const RunRequest& request, const HitTrace& trace,
                                            uint64_t low, uint64_t before);
  absl::StatusOr<std::optional<Hit>> ScanConditions(const RunRequest& request, uint64_t low,
                                                    uint64_t before);
  absl::StatusOr<bool> WatchHeldBefore(const RunRequest& request, const WatchHit& watch);
  absl::StatusOr<bool> ConditionHolds(const RunRequest& request, Hit* hit);
  size_t FirstBreakpointHere(const RunRequest& request) const;

  absl::StatusOr<SegmentReplay*> ReplayOf(uint64_t number);
  void ShareCheckpointMemory(const SegmentReplay* active);
  absl::Status Move(uint64_t target, bool dense, const std::atomic<bool>* interrupt);

  struct Kept {
    uint64_t number = 0;
    uint64_t last_used = 0;
    std::unique_ptr<SegmentReplay> replay;
  };

  const TraceReader* const trace_;
  const ProcessState* const process_;
  const ThreadState& state_;
  const Options options_;
  MemoryView memory_;
  SegmentSearch search_;
  std::vector<Kept> kept_;
  uint64_t uses_ = 0;
  SegmentReplay* here_ = nullptr;
  absl::flat_hash_set<uint64_t> breakpoints_;
  std::vector<Watchpoint> watchpoints_;
  // How far back the search that goes on has looked without a hit.
  uint64_t searched_to_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_THREAD_TIMELINE_H_
