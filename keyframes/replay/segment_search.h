// Looks for stops in whole segments, several at a time, each replayed on a Cpu of its own.
//
// Keeps its Cpus (and their translations) from one search to the next. Borrows the trace. Not
// copyable, not movable. One host thread at a time; uses more inside Run.

#ifndef HINDSIGHT_KEYFRAMES_REPLAY_SEGMENT_SEARCH_H_
#define HINDSIGHT_KEYFRAMES_REPLAY_SEGMENT_SEARCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "emulator/cpu/cpu.h"
#include "keyframes/replay/segment_replay.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct SegmentHits {
  uint64_t number = 0;
  uint64_t first_count = 0;
  uint64_t end_count = 0;
  HitTrace trace;
  std::vector<WatchedImport> endings;  // the watched bytes the segment held at its end
};

class SegmentSearch {
 public:
  SegmentSearch(const TraceReader* trace, int host_threads);
  SegmentSearch(const SegmentSearch&) = delete;
  SegmentSearch& operator=(const SegmentSearch&) = delete;

  struct Request {
    int32_t thread = 0;
    // Segments searched, both included, in this order: forward or backward.
    uint64_t from = 0;
    uint64_t to = 0;
    const absl::flat_hash_set<uint64_t>* breakpoints = nullptr;
    const std::vector<Watchpoint>* watchpoints = nullptr;
    const std::atomic<bool>* interrupt = nullptr;  // may be null
  };
  // Calls `take` on the calling thread with the segments' hits, one after the other in the order
  // asked for, until it returns true. kCancelled if interrupted.
  absl::Status Run(const Request& request,
                   const std::function<absl::StatusOr<bool>(const SegmentHits&)>& take);

  uint64_t states_replayed() const;

 private:
  const TraceReader* const trace_;
  const int host_threads_;
  std::vector<std::unique_ptr<SegmentReplay>> replays_;  // one for each host thread
};

// The watched bytes `replay` holds in its present state, as if they had been imported there.
std::vector<WatchedImport> WatchedBytes(const SegmentReplay& replay,
                                        const std::vector<Watchpoint>& watchpoints);

// The watched bytes that become known at the start of `replay`'s segment: those it holds in that
// state, which it must be in, and those of a full keyframe there. (What other threads
// know in that state is found in their own segments; a keyframe's memory comes up once for each.)
std::vector<WatchedImport> WatchedAtStart(const TraceReader& trace, const SegmentReplay& replay,
                                          const std::vector<Watchpoint>& watchpoints);
// The full keyframe in the state in which segment `number` of `thread` begins, or null.
const FullKeyframe* KeyframeAtStart(const TraceReader& trace, int32_t thread, uint64_t number);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_REPLAY_SEGMENT_SEARCH_H_
