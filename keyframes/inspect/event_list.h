// Lists the events of a recording around a moment.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_EVENT_LIST_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_EVENT_LIST_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/syscall_text.h"
#include "keyframes/state/process_state.h"

namespace hindsight {

struct EventFilter {
  uint32_t number = 10;          // before the moment, and after it
  int32_t thread = 0;            // 0: all
  std::vector<EventKind> kinds;  // empty: what a user wants to see of all

  // "syscall", "signals", "fork", ...; false: not a kind.
  bool AddKind(absl::string_view name);
  bool Lists(const ProcessEvent& event) const;
};

// Memory as it was at an event.
using EventMemory = std::function<CallMemory(const TimelineEvent& event)>;

// A line for each; the one to come next is marked. `memory` (may be unset) is asked for what the
// system calls listed point to.
std::string ListEvents(const ProcessState& process, uint64_t moment, const EventFilter& filter,
                       const EventMemory& memory);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_EVENT_LIST_H_
