// One run along the timeline, forward or backward.
//
// Where something is looked for in the code that threads execute, the timeline is taken in windows
// of moments that widen. In each window every thread that ran in it is searched on its own; of what
// they find the first (or, backward, the last) counts, and the others are searched only up to that.
//
// Borrows everything. Made for one run. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_RUN_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_RUN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keyframes/timeline/backward_search.h"
#include "keyframes/timeline/event_stops.h"
#include "keyframes/timeline/process_replay.h"
#include "keyframes/timeline/run_request.h"
#include "keyframes/timeline/unknown_spans.h"

namespace hindsight {

class TimelineRun {
 public:
  // What a run stopped for. Of two system calls that meet in a moment, one just made and one about
  // to be, it says which was reported.
  struct Reported {
    uint64_t moment = 0;
    StopKind kind = StopKind::kStep;
  };

  TimelineRun(ProcessReplay* replay, EventStops* events, UnknownSpans* unknown,
              const RunRequest* request)
      : replay_(*replay),
        events_(*events),
        unknown_(*unknown),
        request_(*request),
        thread_(request->thread != 0 ? request->thread : replay->current()) {}
  TimelineRun(const TimelineRun&) = delete;
  TimelineRun& operator=(const TimelineRun&) = delete;

  // Runs. `reported`: by the run before, unset if the timeline has moved since; then by this one.
  // After an error the timeline is where it was.
  absl::StatusOr<RunStop> Go(std::optional<Reported>* reported);

 private:
  // A thread's hit, and the moment to go to for it.
  struct FoundHit {
    uint64_t moment = 0;
    int32_t thread = 0;
    BackwardSearch::Hit hit;
  };

  // Whose stops count; 0: all threads'.
  int32_t only() const { return request_.only_thread ? thread_ : 0; }
  bool LooksForCode() const {
    return !request_.breakpoints.empty() || !request_.watchpoints.empty();
  }
  // Threads that make transitions out of moments low..high - 1 and whose stops count, in order.
  std::vector<int32_t> ActiveThreads(uint64_t low, uint64_t high) const;
  bool MayStop(int32_t thread, uint64_t low, uint64_t high);

  absl::StatusOr<RunStop> RunTowards();
  // Up to `limit`, where the search ends; nullopt: it is there already.
  absl::StatusOr<std::optional<RunStop>> RunForwardTo(uint64_t limit);
  absl::StatusOr<std::optional<RunStop>> SearchForward(uint64_t limit);
  absl::StatusOr<std::optional<RunStop>> SearchWindowForward(uint64_t high, bool leave);
  absl::StatusOr<std::optional<RunStop>> RunBackwardTo(uint64_t floor);
  absl::StatusOr<std::optional<RunStop>> SearchBackward(uint64_t floor);
  absl::Status SearchWindowBackward(uint64_t floor, uint64_t low,
                                    absl::flat_hash_map<int32_t, uint64_t>* searched,
                                    std::optional<FoundHit>* best);
  absl::StatusOr<RunStop> StepRange();
  absl::StatusOr<std::optional<RunStop>> StepOnce();

  std::vector<UnknownMemory> UnknownBeforeImports(uint64_t low, uint64_t high);
  std::vector<UnknownMemory> UnknownOnTheWay(uint64_t low, uint64_t high);

  ProcessReplay& replay_;
  EventStops& events_;
  UnknownSpans& unknown_;
  const RunRequest& request_;
  const int32_t thread_;  // whose steps count: the one asked for, or that runs where the run begins
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_RUN_H_
