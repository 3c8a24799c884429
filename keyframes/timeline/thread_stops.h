// What a run looks for in one thread, and whether what the replay found is a stop: conditions are
// evaluated, and watched memory that came into the view is compared with what was known before.
//
// Borrows everything. Not copyable, not movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_STOPS_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_STOPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/memory/page_bits.h"
#include "keyframes/timeline/run_request.h"
#include "keyframes/timeline/thread_replay.h"

namespace hindsight {

// What a thread asks of the process.
class ThreadHost {
 public:
  virtual ~ThreadHost() = default;
  // Evaluates a stop's condition for `thread` in the state `count`. With `before` that is where
  // the next transition is made, else where the last one has been made.
  virtual bool Evaluate(int32_t thread, uint64_t count, bool before,
                        const StopCondition& condition) = 0;
  // `wanted` bytes of the page as the process knew them when `thread` made the transition out of
  // `count`, which is in an earlier segment than `number`; kNotFound if the page was not known.
  // `out`: a page; its other bytes may be old.
  virtual absl::Status ReadBefore(int32_t thread, uint64_t number, uint64_t count, uint64_t page,
                                  const PageBits& wanted, absl::Span<uint8_t> out) = 0;
  // Several threads may begin a segment at one full keyframe. Whether `thread`, which does in the
  // state `count`, is the one whose search compares the keyframe's memory with what was before.
  virtual bool ComparesKeyframe(int32_t thread, uint64_t count, uint64_t keyframe) = 0;
  // Whether a view may show what others have overwritten: then storing what it shows may change
  // memory.
  virtual bool ViewsMayBeOld() const = 0;
  // The first byte of [address, address + size) that memory, as `thread` is shown it in the state
  // `count`, has other than the thread's view. The search goes on from where it is.
  virtual absl::StatusOr<std::optional<uint64_t>> FirstOldByte(int32_t thread, uint64_t count,
                                                               uint64_t address, uint64_t size) = 0;
  // A state of `thread`, not before `count`, up to which no other thread stores to watched memory
  // after `count`; there may be later ones (store_log.h).
  virtual absl::StatusOr<uint64_t> QuietUntil(int32_t thread, uint64_t count) = 0;
};

class ThreadStops {
 public:
  ThreadStops(const ThreadReplay* replay, ThreadHost* host) : replay_(*replay), host_(host) {}
  ThreadStops(const ThreadStops&) = delete;
  ThreadStops& operator=(const ThreadStops&) = delete;

  // The stops of `request` hold for all that follows, until the next Set.
  void Set(const RunRequest& request);
  const PlainStops& plain() const { return plain_; }
  bool views_may_be_old() const { return may_be_old_; }
  // Sets them in the thread's present replay.
  void Arm() const;
  void ArmWatchpoints() const;

  // Index of the first breakpoint at pc whose condition holds.
  std::optional<size_t> MatchingBreakpoint(const RunRequest& request) const;
  // Whether an access is a stop: its thread and condition are asked, and, where the thread's view
  // shows no change, memory. What to report of it then.
  absl::StatusOr<std::optional<WatchHit>> AcceptWatch(const RunRequest& request,
                                                      const WatchHit& hit, bool before);
  RunStop WatchStop(const RunRequest& request, const WatchHit& hit) const;

  // A watched page that came into the view with other bytes than were known of it before.
  absl::StatusOr<std::optional<WatchHit>> ChangedImport(const std::vector<WatchedImport>& imports);
  // Watched memory that came into the view without having been known before: the state, the page.
  struct UnknownImport {
    uint64_t count = 0;
    uint64_t page = 0;
  };
  // Those that ChangedImport met since the last call.
  std::vector<UnknownImport> TakeUnknownImports() { return std::exchange(unknown_imports_, {}); }

 private:
  int32_t thread() const { return replay_.state().thread(); }
  bool Concerns(const WatchpointSpec& stop) const {
    return stop.thread == 0 || stop.thread == thread();
  }
  absl::StatusOr<std::optional<WatchHit>> FirstChange(const RunRequest& request,
                                                      const WatchHit& hit);
  absl::StatusOr<std::optional<uint64_t>> FirstNewByteSince(const WatchedImport& import,
                                                            uint64_t count,
                                                            const WatchedPart& part);
  absl::StatusOr<bool> IsQuiet(const Watchpoints::Hit& store, uint64_t count);

  const ThreadReplay& replay_;
  ThreadHost* const host_;
  PlainStops plain_;
  bool may_be_old_ = false;
  std::vector<UnknownImport> unknown_imports_;
  // Of memory that has what the thread's view shows.
  std::vector<QuietStores> quiet_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_THREAD_STOPS_H_
