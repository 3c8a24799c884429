// Which moments of a recording are to be snapshots.
//
// Borrows trace and timeline. One thread at a time.

#ifndef HINDSIGHT_CLI_STATES_REFINE_PLACES_H_
#define HINDSIGHT_CLI_STATES_REFINE_PLACES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/states/refine_recording.h"
#include "keyframes/inspect/timeline_view.h"
#include "keyframes/timeline/timeline.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// The recorded times of moments. Between those that the trace has it takes steps of the same
// length.
class RecordedTimes {
 public:
  RecordedTimes(const TraceReader& trace, const ProcessState& process);
  uint64_t AtMoment(uint64_t moment) const;  // in ns since the recording began
  uint64_t MomentAt(uint64_t time_ns) const;

 private:
  std::vector<std::pair<uint64_t, uint64_t>> known_;  // moments and times, both ascending
};

class RefinePlaces {
 public:
  struct Moment {
    int32_t thread = 0;    // that did it; 0: the current one
    uint64_t trigger = 0;  // as in a snapshot's event
    std::string label;
  };
  using Moments = std::map<uint64_t, Moment>;

  RefinePlaces(const TraceReader* trace, Timeline* timeline, TimelineView* view)
      : trace_(trace), timeline_(timeline), view_(view) {}

  // kInvalidArgument, kResourceExhausted (too many): a line for the user. Moves the timeline.
  absl::StatusOr<Moments> Find(const RecordingRefinement& wanted, const RecordedTimes& times);

 private:
  absl::StatusOr<uint64_t> MomentOf(const std::string& text, const char* otherwise) const;
  absl::Status Add(uint64_t moment, Moment what);
  absl::Status AddEvenly(uint64_t from, uint64_t to, uint64_t count);
  absl::Status AddTimes(uint64_t from, uint64_t to, uint64_t every_ns, const RecordedTimes& times);
  // Where `wanted.at` is reached and `wanted.watch` has changed.
  absl::Status AddStops(uint64_t from, uint64_t to, const RecordingRefinement& wanted);
  absl::StatusOr<RunRequest> MakeRequest(const RecordingRefinement& wanted) const;
  // The addresses of `wanted.at`: of each place where it is at `to`, else at `from`.
  absl::StatusOr<std::set<uint64_t>> CodeAddresses(uint64_t from, uint64_t to,
                                                   const RecordingRefinement& wanted);
  absl::StatusOr<WatchpointSpec> Variable(const std::string& name) const;
  // Calls `visit` with each file mapped here that the trace has, and where its addresses begin.
  template <typename Visit>
  void ForEachImage(Visit visit) const;

  const TraceReader* trace_;
  Timeline* timeline_;
  TimelineView* view_;
  uint64_t max_ = 0;
  Moments moments_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_STATES_REFINE_PLACES_H_
