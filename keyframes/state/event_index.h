// The events of a process by moment, all of them and those that runs stop for by kind.
//
// Filled once, then immutable: any number of host threads may read it at once. Borrows the events.

#ifndef HINDSIGHT_KEYFRAMES_STATE_EVENT_INDEX_H_
#define HINDSIGHT_KEYFRAMES_STATE_EVENT_INDEX_H_

#include <cstdint>
#include <map>
#include <vector>

#include "tracefmt/records.h"

namespace hindsight {

// An event and the moment after it, at which the thread is in the state that the event led to. The
// event itself is the transition out of the moment before. A system call or signal that ended the
// thread led to no state: there the moment is the one after the thread's last.
struct TimelineEvent {
  uint64_t moment = 0;
  const ProcessEvent* event = nullptr;
};

// By the number of the signal or system call, in the order of their moments each, so that a
// search for few of them, or for none, does not look at all of them.
using NumberedEvents = std::map<int64_t, std::vector<TimelineEvent>>;

class EventIndex {
 public:
  // `moves`: the event led its thread to a new state, so that a run may stop for it.
  void Add(const ProcessEvent* event, uint64_t moment, bool moves);
  // Brings all lists into the order of their moments; events of one moment keep theirs.
  void Sort();

  const std::vector<TimelineEvent>& all() const { return all_; }
  const NumberedEvents& signals() const { return signals_; }
  const NumberedEvents& syscalls() const { return syscalls_; }
  const std::vector<TimelineEvent>& execs() const { return execs_; }
  const std::vector<TimelineEvent>& forks() const { return forks_; }
  // The last exec at or before `moment`; null if there is none.
  const TimelineEvent* LastExec(uint64_t moment) const;

 private:
  std::vector<TimelineEvent> all_;
  NumberedEvents signals_;
  NumberedEvents syscalls_;
  std::vector<TimelineEvent> execs_;
  std::vector<TimelineEvent> forks_;
  TimelineEvent first_exec_;  // before the trace begins
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_EVENT_INDEX_H_
