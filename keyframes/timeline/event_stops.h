// Where events stop a run: signals, system calls, execs, forks, starts and ends of threads. Known
// without replay, so a run asks here first how far it need search.
//
// Borrows the process state. Immutable: any number of host threads may use it at once.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_EVENT_STOPS_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_EVENT_STOPS_H_

#include <cstdint>
#include <optional>

#include "keyframes/state/process_state.h"
#include "keyframes/timeline/run_request.h"

namespace hindsight {

struct EventStop {
  uint64_t moment = 0;
  RunStop stop;
};

// `only`: events of this thread count, the others' do not; 0: all.
class EventStops {
 public:
  explicit EventStops(const ProcessState* process) : process_(process) {}

  // The first stop after the moment `after`, and the last one before `before`.
  std::optional<EventStop> Next(const RunRequest& request, int32_t only, uint64_t after) const;
  std::optional<EventStop> Previous(const RunRequest& request, int32_t only, uint64_t before) const;
  // What stops a step of `thread` into its state `count`.
  std::optional<RunStop> InState(const RunRequest& request, int32_t thread, uint64_t count) const;
  // The stop that comes next although it is at the moment at which the last run stopped, and
  // reported `reported`: two system calls may meet there, one just made and one about to be.
  std::optional<RunStop> AtSameMoment(const RunRequest& request, int32_t only, StopKind reported,
                                      uint64_t moment) const;

 private:
  std::optional<EventStop> NextThreadStop(const RunRequest& request, int32_t only,
                                          uint64_t after) const;
  std::optional<EventStop> PreviousThreadStop(const RunRequest& request, int32_t only,
                                              uint64_t before) const;

  const ProcessState* process_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_EVENT_STOPS_H_
