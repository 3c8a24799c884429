// The timeline of one thread: goes to its states and searches them for stops, both ways.
//
// Speaks of counts; how the threads' counts make up one timeline is not known here. It stands where
// it was used last, if the pool has not taken its replay away: every search and move says where it
// begins.
//
// Borrows everything. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_TIMELINE_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_TIMELINE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/replay/replay_pool.h"
#include "keyframes/replay/segment_replay.h"
#include "keyframes/replay/segment_search.h"
#include "keyframes/state/thread_state.h"
#include "keyframes/timeline/memory_view.h"
#include "keyframes/timeline/run_request.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// What a thread's timeline asks of the process's.
class ThreadHost {
 public:
  virtual ~ThreadHost() = default;
  // Whether a stop's condition holds for `thread` in the state `count`. With `before` that is where
  // the next transition is made, else where the last one has been made.
  virtual bool Holds(int32_t thread, uint64_t count, bool before,
                     const std::function<bool(int32_t)>& condition) = 0;
  // The page as the process knew it when `thread` made the transition out of `count`, which is in
  // an earlier segment than `number`; kNotFound if it was not known.
  virtual absl::Status ReadBefore(int32_t thread, uint64_t number, uint64_t count, uint64_t page,
                                  absl::Span<uint8_t> out) = 0;
  // Of several threads that begin a segment, in the state `count`, at the full keyframe of that
  // number, one tells what it says of memory.
  virtual bool TellsKeyframe(int32_t thread, uint64_t count, uint64_t keyframe) = 0;
};

// A stop of one thread.
struct ThreadStop {
  RunStop stop;
  uint64_t count = 0;
};

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

  const ThreadState& state() const { return state_; }
  // Its replay, to read from; null if it stands nowhere.
  SegmentReplay* replay() const { return here(); }
  uint64_t count() const { return here()->count(); }  // Requires: replay() is not null

  // Goes to a state of the thread. Registers are those of the state wherever it stood before; see
  // GoBeforeTurn. kCancelled, somewhere on the way, if interrupted.
  absl::Status GoTo(uint64_t target, bool dense, const std::atomic<bool>* interrupt);
  // The same, or where the thread waits for its next turn in that state.
  absl::Status StandAt(uint64_t target, const std::atomic<bool>* interrupt);
  absl::Status GoBeforeTurn(uint64_t target, const std::atomic<bool>* interrupt);
  // Goes to the end of segment `number`.
  absl::Status GoToEndOf(uint64_t number, const std::atomic<bool>* interrupt);

  // One transition on from, or back to before, the state `from`; count() tells where that led, and
  // `hit` (if watchpoints are set) which of them it touched. False at the thread's ends.
  absl::StatusOr<bool> StepForward(uint64_t from, std::optional<WatchHit>* hit,
                                   const std::atomic<bool>* interrupt);
  absl::StatusOr<bool> StepBackward(uint64_t from, std::optional<WatchHit>* hit,
                                    const std::atomic<bool>* interrupt);

  // Looks for what `request`, whose stops were set, asks for. SetStops holds for all that follows.
  void SetStops(const RunRequest& request);
  // The first stop in states from..limit - 1, or nullopt. `leave`: not the breakpoint it starts on.
  // kInterrupted: stands where it got to.
  absl::StatusOr<std::optional<ThreadStop>> RunForward(const RunRequest& request, uint64_t from,
                                                       uint64_t limit, bool leave);
  // A stop found on the way back, in the state before the transition (or at the breakpoint).
  struct Hit {
    uint64_t count = 0;
    bool is_watch = false;
    WatchHit watch;
    std::optional<size_t> breakpoint = std::nullopt;  // index, where a condition was evaluated
  };
  // The last stop in states floor..before - 1, looked for down to `low` at least, or further if
  // that costs nothing: see searched_to(), also after kCancelled.
  absl::StatusOr<std::optional<Hit>> LastHitBefore(const RunRequest& request, uint64_t floor,
                                                   uint64_t low, uint64_t before);
  uint64_t searched_to() const { return searched_to_; }
  // Watched memory that came into the view without having been known before: the state, the page.
  struct UnknownImport {
    uint64_t count = 0;
    uint64_t page = 0;
  };
  // Those that were met since the last call.
  std::vector<UnknownImport> TakeUnknownImports() { return std::exchange(unknown_imports_, {}); }
  // What to say of a stop; the timeline must stand there.
  absl::StatusOr<RunStop> DescribeHit(const RunRequest& request, const Hit& hit);
  RunStop WatchStop(const RunRequest& request, const WatchHit& hit) const;
  bool WatchHolds(const RunRequest& request, size_t index, bool before) const;
  // Index of the first breakpoint at pc whose condition holds.
  std::optional<size_t> MatchingBreakpoint(const RunRequest& request);

  // When the thread last learned or changed each of those `lines` of `page`, in the segment it
  // stands in, up to the state it stands in. Changes before the state `since` need not be found.
  struct Knowledge {
    uint64_t count = 0;
    bool imported = false;  // in that state; else changed by the transition that led to it
  };
  using PageKnowledge = std::array<Knowledge, kPageBytes / kLineBytes>;
  absl::StatusOr<PageKnowledge> LastKnown(uint64_t page, uint64_t lines, uint64_t since,
                                          const std::atomic<bool>* interrupt);

 private:
  absl::Status FindLastWrites(uint64_t page, uint64_t lines, uint64_t since, uint64_t high,
                              PageKnowledge* known, const std::atomic<bool>* interrupt);
  SegmentReplay* here() const { return holder_.replay; }
  bool Raised(const RunRequest& request) const {
    return request.interrupt != nullptr && request.interrupt->load(std::memory_order_relaxed);
  }
  bool InLastSegmentOf(uint64_t count) const {
    return state_.SegmentAt(count) == here()->segment().info().number;
  }

  absl::Status Enter(uint64_t number);  // in whatever state that segment's replay was left
  absl::Status EnterSegment(uint64_t number);
  absl::Status EnterNextSegment();
  absl::Status EnterNextInteresting(const RunRequest& request, uint64_t limit,
                                    std::vector<WatchedImport>* imports);
  void RememberWatched();
  std::vector<WatchedImport> WatchedAtStartHere() const;
  // A watched page that came into the view with other bytes than were known of it before.
  absl::StatusOr<std::optional<WatchHit>> ChangedImport(const std::vector<WatchedImport>& imports);
  absl::StatusOr<std::optional<ThreadStop>> TakeLeg(const RunRequest& request, LegEnd end,
                                                    const std::vector<WatchedImport>& imports);

  // Running backward (thread_timeline_backward.cc).
  absl::StatusOr<std::optional<Hit>> SearchWindows(const RunRequest& request, uint64_t floor,
                                                   uint64_t low, uint64_t before);
  absl::StatusOr<std::optional<Hit>> SearchSegments(const RunRequest& request, uint64_t floor,
                                                    uint64_t newest, uint64_t oldest);
  absl::StatusOr<std::optional<Hit>> TakeSegment(const RunRequest& request, const SegmentHits& hits,
                                                 uint64_t floor,
                                                 std::vector<WatchedImport>* pending);
  absl::StatusOr<std::optional<Hit>> ResolvePending(const RunRequest& request,
                                                    const std::vector<WatchedImport>& endings,
                                                    std::vector<WatchedImport>* pending);
  absl::StatusOr<std::optional<Hit>> ResolvePendingByMemory(const RunRequest& request,
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
  absl::StatusOr<std::optional<WatchHit>> ResolveWatch(const HitTrace& trace, uint64_t low,
                                                       uint64_t before,
                                                       const std::atomic<bool>* interrupt);
  absl::StatusOr<std::optional<Hit>> ScanWatches(const RunRequest& request, uint64_t low,
                                                 uint64_t before);
  absl::StatusOr<bool> ConditionHolds(const RunRequest& request, const Hit& hit);
  absl::StatusOr<bool> WatchHeldBefore(const RunRequest& request, const WatchHit& watch);

  const TraceReader* const trace_;
  const ThreadState& state_;
  const Context context_;
  ReplayPool::Holder holder_;
  absl::flat_hash_set<uint64_t> breakpoints_;
  std::vector<Watchpoint> watchpoints_;
  uint64_t searched_to_ = 0;
  std::vector<UnknownImport> unknown_imports_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_TIMELINE_H_
