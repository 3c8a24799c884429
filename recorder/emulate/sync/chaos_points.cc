#include "recorder/emulate/sync/chaos_points.h"

#include <algorithm>

namespace hindsight {
namespace {

// Pages so near the stack pointer are of the stack.
constexpr uint64_t kStackInUse = 16'384;

}  // namespace

void ChaosPoints::Start() {
  if (scheduler_->chaos()) pager_->set_note_writes(ProcessPager::NoteWrites::kShared);
}

void ChaosPoints::BeginLeg() {
  if (scheduler_->chaos()) pager_->TakeNotedWrites();
}

bool ChaosPoints::EndsAtCall(pid_t thread, bool alone) {
  return scheduler_->chaos() && !alone && scheduler_->EndsAtCall(thread);
}

// In order.
std::vector<uint64_t> ChaosPoints::MeetingPlacesSince(uint64_t first, Cpu* cpu) {
  std::vector<uint64_t> places;
  // Each turn begins with writes to the stack, which other threads do not use.
  const uint64_t stack = cpu->registers().gpr[kRsp] - kStackInUse;
  for (const auto& [page, count] : pager_->TakeNotedWrites()) {
    if (page - stack >= 2 * kStackInUse) places.push_back(count);
  }
  const absl::Span<const uint64_t> orderable = sync_->OrderableSince(first);
  places.insert(places.end(), orderable.begin(), orderable.end());
  std::sort(places.begin(), places.end());
  return places;
}

std::optional<uint64_t> ChaosPoints::EarlierEnd(pid_t thread, Cpu* cpu, uint64_t first,
                                                bool alone) {
  if (!scheduler_->chaos() || (alone && !clock_->delays_signal())) return std::nullopt;
  const std::vector<uint64_t> places = MeetingPlacesSince(first, cpu);
  const std::optional<size_t> chosen = scheduler_->EndsAtPlace(thread, places.size());
  if (!chosen.has_value()) return std::nullopt;
  // Before `first` there may be a system call.
  const uint64_t target = std::max(first + 1, places[*chosen] + scheduler_->DistanceFromPlace());
  if (target >= cpu->count()) return std::nullopt;
  if (clock_->delays_signal()) clock_->MoveSignalTo(target);
  return target;
}

bool ChaosPoints::SignalIsDue(bool pending, uint64_t count, absl::FunctionRef<void()> sync) {
  if (!pending) {
    if (clock_->ForgetSignal()) pager_->set_note_writes(ProcessPager::NoteWrites::kShared);
    return false;
  }
  if (!scheduler_->chaos()) return true;
  if (!clock_->delays_signal()) {
    clock_->DelaySignal(count);
    pager_->set_note_writes(ProcessPager::NoteWrites::kAll);
    sync();
  }
  if (!clock_->SignalIsDue(count)) return false;
  clock_->ForgetSignal();
  pager_->set_note_writes(ProcessPager::NoteWrites::kShared);
  return true;
}

}  // namespace hindsight
