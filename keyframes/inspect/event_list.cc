#include "keyframes/inspect/event_list.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/printable.h"
#include "base/syscall_text.h"
#include "keyframes/state/first_after.h"
#include "keyframes/state/snapshot_list.h"

namespace hindsight {
namespace {

std::string CallText(const TimelineEvent& listed, const EventMemory& memory) {
  const ProcessEvent& event = *listed.event;
  const bool shows = memory && ShowsMemory(event.number);
  return SyscallText(event.number, event.arguments, event.result,
                     shows ? memory(listed) : CallMemory());
}

std::string ForkText(const ProcessEvent& event) {
  const auto argument = [&](size_t i) {
    return i < event.arguments.size() ? event.arguments[i] : 0;
  };
  const bool vfork = argument(0) == static_cast<uint64_t>(ForkKind::kVfork);
  return absl::StrFormat("%s process %d%s", vfork ? "vforked" : "forked", event.result,
                         argument(1) != 0 ? "" : ", not recorded");
}

std::string Text(const TimelineEvent& listed, const EventMemory& memory) {
  const ProcessEvent& event = *listed.event;
  switch (event.kind) {
    case EventKind::kSyscall:
      return CallText(listed, memory);
    case EventKind::kSignal:
      return absl::StrCat("signal ", event.number, " (", strsignal(static_cast<int>(event.number)),
                          ")");
    case EventKind::kFullKeyframe:
      return absl::StrCat("full keyframe ", event.number);
    case EventKind::kSnapshot: {
      // Without the number, which is not in the event.
      const std::string text = SnapshotText(DescribeSnapshot(event, 0));
      return absl::StrCat("snapshot", text.substr(text.find(':')));
    }
    case EventKind::kThreadStart:
      return event.number == 0 ? "the thread began"
                               : absl::StrCat("the thread began, made by ", event.number);
    case EventKind::kThreadExit:
      return "the thread ended";
    case EventKind::kThreadName:
      return absl::StrCat("the thread is called ", Printable(event.text));
    case EventKind::kProcessExit:
      return "the process ended";
    case EventKind::kExec:
      return absl::StrCat("executed ", Printable(event.text));
    case EventKind::kFork:
      return ForkText(event);
    case EventKind::kMemoryUnknown:
      return absl::StrCat("memory may have been written: ", event.text);
    case EventKind::kTrimmed:
      return "the trace begins here: what was recorded before was dropped";
    case EventKind::kFileChanged:
      return "a mapped file has changed";
    default:
      return event.text.empty() ? "event" : Printable(event.text);
  }
}

// The position after the event: its thread's, or the process's.
std::string Place(const TimelineEvent& listed, const ProcessState& process) {
  if (listed.moment > process.end_moment()) return "end";
  if (listed.event->kind == EventKind::kThreadStart) {
    return ToString(Position{listed.event->sequence, 0});
  }
  const int32_t thread = listed.event->thread;
  if (process.threads().IsLost(thread, listed.event->count)) {
    return listed.event->sequence != 0 ? ToString(Position{listed.event->sequence, 0})
                                       : ToString(process.PositionAt(listed.moment));
  }
  return ToString(process.threads().Has(thread) ? process.PositionAt(thread, listed.moment)
                                                : process.PositionAt(listed.moment));
}

}  // namespace

bool EventFilter::AddKind(absl::string_view name) {
  absl::ConsumeSuffix(&name, "s");
  if (name == "syscall") {
    kinds.push_back(EventKind::kSyscall);
  } else if (name == "signal") {
    kinds.push_back(EventKind::kSignal);
  } else if (name == "fork") {
    kinds.push_back(EventKind::kFork);
  } else if (name == "exec") {
    kinds.push_back(EventKind::kExec);
  } else if (name == "snapshot") {
    kinds.insert(kinds.end(), {EventKind::kFullKeyframe, EventKind::kSnapshot});
  } else if (name == "thread") {
    kinds.insert(kinds.end(),
                 {EventKind::kThreadStart, EventKind::kThreadExit, EventKind::kThreadName});
  } else {
    return false;
  }
  return true;
}

bool EventFilter::Lists(const ProcessEvent& event) const {
  if (thread != 0 && event.thread != thread) return false;
  if (!kinds.empty()) return std::find(kinds.begin(), kinds.end(), event.kind) != kinds.end();
  // Changes of the memory map are the consequence of a system call listed next to them.
  return event.kind != EventKind::kMapChange && event.kind != EventKind::kMapPart &&
         event.kind != EventKind::kSchedule && event.kind != EventKind::kSlice;
}

std::string ListEvents(const ProcessState& process, uint64_t moment, const EventFilter& filter,
                       const EventMemory& memory) {
  std::vector<TimelineEvent> listed;
  for (const TimelineEvent& event : process.events()) {
    if (filter.Lists(*event.event)) listed.push_back(event);
  }
  const auto next = FirstAfter(listed, moment);
  const auto first = next - std::min<ptrdiff_t>(next - listed.begin(), filter.number);
  const auto last = next + std::min<ptrdiff_t>(listed.end() - next, filter.number);
  const bool several = process.threads().all().size() > 1;
  std::string out;
  for (auto it = first; it != last; ++it) {
    absl::StrAppend(&out, it == next ? "> " : "  ", Place(*it, process));
    if (several && it->event->thread != 0) absl::StrAppend(&out, " [", it->event->thread, "]");
    absl::StrAppend(&out, ": ", Text(*it, memory), "\n");
  }
  return out.empty() ? "no events\n" : out;
}

}  // namespace hindsight
