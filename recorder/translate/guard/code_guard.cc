#include "recorder/translate/guard/code_guard.h"

#include <algorithm>
#include <utility>

#include "recorder/translate/guard/code_check.h"
#include "translator/host/branch_site.h"
#include "translator/thread_block.h"

namespace hindsight {
namespace {

// Twice as long after each store: one takes some 50 us.
constexpr std::chrono::milliseconds kToSettle(30), kLongestToSettle(8000);

GuardState StateOf(const ControlBlock& control) {
  return __atomic_load_n(&control.guard, __ATOMIC_ACQUIRE);
}

}  // namespace

bool CodeGuards::Add(CodeGuard* guard) {
  const std::lock_guard lock(mutex_);
  return !ended_ && all_.insert(guard).second;
}

void CodeGuards::Remove(CodeGuard* guard) {
  const std::lock_guard lock(mutex_);
  all_.erase(guard);
}

void CodeGuards::EndAll() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (CodeGuard* const guard : all_) guard->End();
}

CodeGuard::CodeGuard(std::shared_ptr<CodeGuards> all, ControlBlock* control, CodeAt code_at)
    : all_(std::move(all)), control_(control), code_at_(std::move(code_at)) {}

CodeGuard::~CodeGuard() { all_->Remove(this); }

bool CodeGuard::Open(UniqueFd file) {
  if (watch_ != nullptr) return false;
  auto watch = StoreWatch::Start(std::move(file), [this](uint64_t page) { OnStore(page); });
  if (!watch.ok() || !all_->Add(this)) return false;
  watch_ = *std::move(watch);
  return true;
}

void CodeGuard::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  for (const auto& [page, guarded] : guarded_) {
    CheckAgain(guarded);
    watch_->Release(page, page + kPageBytes);
  }
  guarded_.clear();
}

void CodeGuard::Queue(uint64_t page, Candidate* candidate, Clock::time_point now) {
  candidate->waits = true;
  queue_.emplace(now + candidate->to_settle, page);
}

void CodeGuard::NoteCode(uint64_t page) {
  if (StateOf(*control_) == GuardState::kImpossible) return;
  const auto [it, added] = candidates_.try_emplace(page, Candidate{.to_settle = kToSettle});
  if (added) Queue(page, &it->second, Clock::now());
}

void CodeGuard::TakeStores() {
  const std::lock_guard lock(mutex_);
  for (const auto& [page, time] : stored_) {
    const auto it = candidates_.find(page);
    if (it == candidates_.end() || it->second.waits) continue;
    it->second.to_settle = std::min<Clock::duration>(2 * it->second.to_settle, kLongestToSettle);
    Queue(page, &it->second, time);
  }
  stored_.clear();
}

std::optional<uint64_t> CodeGuard::Due() {
  if (candidates_.empty()) return std::nullopt;
  const auto now = Clock::now();
  if (watch_ != nullptr) TakeStores();
  if (queue_.empty() || queue_.top().first > now) return std::nullopt;
  if (watch_ == nullptr) {
    GuardState none = GuardState::kNone;
    __atomic_compare_exchange_n(&control_->guard, &none, GuardState::kWanted, false,
                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    return std::nullopt;
  }
  const uint64_t page = queue_.top().second;
  queue_.pop();
  const auto it = candidates_.find(page);
  if (it == candidates_.end()) return std::nullopt;
  it->second.waits = false;
  return page;
}

std::optional<CodeGuard::Clock::duration> CodeGuard::UntilDue() const {
  // Before it is open the process is only to be asked once.
  const bool asks = watch_ != nullptr || StateOf(*control_) == GuardState::kNone;
  if (queue_.empty() || !asks) return std::nullopt;
  return std::max(queue_.top().first - Clock::now(), Clock::duration::zero());
}

bool CodeGuard::Protect(uint64_t page, const MapRegion& region) {
  if (watch_ == nullptr || next_number_ == HS_GUARDS) return false;
  const std::pair<uint64_t, uint64_t> mapping = {region.start, region.end};
  if (!registered_.contains(mapping)) {
    if (!watch_->Register(region.start, region.end)) return false;
    registered_.insert(mapping);
  }
  const std::lock_guard lock(mutex_);
  if (ended_ || guarded_.contains(page) || !watch_->Watch(page, page + kPageBytes)) return false;
  guarded_[page].number = next_number_++;
  return true;
}

void CodeGuard::SkipCheck(Guarded* guarded, uint64_t block, bool view) {
  uint8_t* const code = code_at_(block);
  if (view) {
    const auto place = HS_GUARDS_OFFSET + static_cast<int32_t>(guarded->number) + HS_GS_SHIFT;
    __atomic_store_n(reinterpret_cast<int32_t*>(code + kGuardByteAt), place, __ATOMIC_RELEASE);
  }
  SetBranch(code + kGuardBranchAt, 0);
  (view ? guarded->viewed : guarded->direct).push_back(block);
}

void CodeGuard::CheckAgain(const Guarded& guarded) {
  constexpr uint32_t kBranchEnd = kGuardBranchAt + sizeof(int32_t);
  for (const bool view : {false, true}) {
    const auto distance = static_cast<int32_t>(CheckOffset(view) - kBranchEnd);
    for (const uint64_t block : view ? guarded.viewed : guarded.direct) {
      SetBranch(code_at_(block) + kGuardBranchAt, distance);
    }
  }
}

void CodeGuard::Guard(uint64_t page, absl::Span<const uint64_t> blocks, bool view) {
  const std::lock_guard lock(mutex_);
  const auto it = guarded_.find(page);
  if (it == guarded_.end()) return;
  for (const uint64_t block : blocks) SkipCheck(&it->second, block, view);
}

void CodeGuard::Add(uint64_t page, uint64_t block, bool view) {
  NoteCode(page);
  if (watch_ != nullptr) Guard(page, {&block, 1}, view);
}

void CodeGuard::OnStore(uint64_t page) {
  const std::lock_guard lock(mutex_);
  const auto it = guarded_.find(page);
  if (it != guarded_.end()) {
    CheckAgain(it->second);
    guarded_.erase(it);
    stored_.emplace_back(page, Clock::now());
  }
  watch_->Release(page, page + kPageBytes);
}

void CodeGuard::Forget(uint64_t start, uint64_t end) {
  const auto gone = [=](uint64_t page) { return page + kPageBytes > start && page < end; };
  absl::erase_if(candidates_, [&](const auto& entry) { return gone(entry.first); });
  std::erase_if(registered_,
                [=](const auto& mapping) { return mapping.second > start && mapping.first < end; });
  const std::lock_guard lock(mutex_);
  absl::erase_if(guarded_, [&](const auto& entry) {
    if (!gone(entry.first)) return false;
    CheckAgain(entry.second);
    watch_->Release(entry.first, entry.first + kPageBytes);
    return true;
  });
}

}  // namespace hindsight
