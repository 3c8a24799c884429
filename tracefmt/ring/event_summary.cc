#include "tracefmt/ring/event_summary.h"

#include <sched.h>
#include <sys/syscall.h>

namespace hindsight {
namespace {

bool HasOwnPlace(EventKind kind) {
  return kind == EventKind::kSyscall || kind == EventKind::kSignal || kind == EventKind::kExec ||
         kind == EventKind::kFork || kind == EventKind::kThreadStart || kind == EventKind::kSlice;
}

// The C library's fork() is a clone, too: its flags say what it shares.
bool SharesMemory(const ProcessEvent& fork) {
  if (fork.arguments.empty() || fork.number == SYS_fork) return false;
  if (fork.arguments[0] != static_cast<uint64_t>(ForkKind::kClone)) return false;
  return fork.arguments.size() <= 2 || (fork.arguments[2] & CLONE_VM) != 0;
}

}  // namespace

void EventSummary::Add(const ProcessEvent& event) {
  if (event.thread != 0 && event.sequence != 0 && HasOwnPlace(event.kind)) {
    OrderedPoint& point = threads_[event.thread].point;
    if (event.sequence > point.sequence) point = {event.sequence, event.count};
  }
  switch (event.kind) {
    case EventKind::kSyscall:
      AddCall(event);
      break;
    case EventKind::kThreadStart:
      being_made_.erase(event.thread);
      if (!event.text.empty()) threads_[event.thread].name = event.text;
      break;
    case EventKind::kThreadName:
      threads_[event.thread].name = event.text;
      break;
    case EventKind::kThreadExit:
      threads_.erase(event.thread);
      break;
    case EventKind::kExec:
      program_ = event.text;
      ++execs_;
      others_write_ = false;
      being_made_.clear();
      break;
    case EventKind::kFork:
      being_made_.erase(event.result);
      others_write_ |= SharesMemory(event);
      break;
    case EventKind::kFullKeyframe:
      // One that has not started since the last one was over before its maker knew of it.
      for (const int64_t thread : being_made_before_) being_made_.erase(thread);
      being_made_before_ = being_made_;
      break;
    case EventKind::kFileChanged:
      changed_files_.insert(event.number);
      break;
    default:
      break;
  }
}

void EventSummary::AddCall(const ProcessEvent& call) {
  if (call.result < 0) return;
  if (call.number == SYS_io_setup || call.number == SYS_io_uring_setup) others_write_ = true;
  const bool clones = call.number == SYS_clone || call.number == SYS_clone3;
  if (clones && call.result > 0 && !threads_.contains(static_cast<int32_t>(call.result))) {
    being_made_.insert(call.result);
  }
}

std::vector<ProcessEvent> EventSummary::Carried(absl::Span<const Beginning> threads) const {
  std::vector<ProcessEvent> events;
  for (const Beginning& beginning : threads) {
    ProcessEvent start = {
        .kind = EventKind::kThreadStart, .thread = beginning.thread, .count = beginning.count};
    OrderedPoint point = beginning.instruction;
    if (const auto known = threads_.find(beginning.thread); known != threads_.end()) {
      start.text = known->second.name;
      if (known->second.point.sequence > point.sequence) point = known->second.point;
    }
    if (point.sequence != 0) {
      start.sequence = point.sequence;
      start.count = point.count;
    }
    events.push_back(std::move(start));
  }
  for (const int64_t module : changed_files_) {
    events.push_back({.kind = EventKind::kFileChanged, .number = module});
  }
  return events;
}

}  // namespace hindsight
