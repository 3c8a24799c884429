#include "keyframes/state/event_index.h"

#include <algorithm>
#include <iterator>

#include "keyframes/state/first_after.h"

namespace hindsight {
namespace {

void SortByMoment(std::vector<TimelineEvent>* events) {
  std::stable_sort(
      events->begin(), events->end(),
      [](const TimelineEvent& a, const TimelineEvent& b) { return a.moment < b.moment; });
}

}  // namespace

void EventIndex::Add(const ProcessEvent* event, uint64_t moment, bool moves) {
  all_.push_back({moment, event});
  // It says which program runs at the beginning.
  if (event->kind == EventKind::kTrimmed && !event->text.empty()) first_exec_ = {moment, event};
  if (!moves) return;
  if (event->kind == EventKind::kSignal) signals_[event->number].push_back({moment, event});
  if (event->kind == EventKind::kSyscall) syscalls_[event->number].push_back({moment, event});
  if (event->kind == EventKind::kExec) execs_.push_back({moment, event});
  if (event->kind == EventKind::kFork) forks_.push_back({moment, event});
}

void EventIndex::Sort() {
  for (auto* list : {&all_, &execs_, &forks_}) SortByMoment(list);
  for (auto& [number, list] : signals_) SortByMoment(&list);
  for (auto& [number, list] : syscalls_) SortByMoment(&list);
}

const TimelineEvent* EventIndex::LastExec(uint64_t moment) const {
  const auto after = FirstAfter(execs_, moment);
  if (after != execs_.begin()) return &*std::prev(after);
  return first_exec_.event == nullptr ? nullptr : &first_exec_;
}

}  // namespace hindsight
