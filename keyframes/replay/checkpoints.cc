#include "keyframes/replay/checkpoints.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"

namespace hindsight {
namespace {

// A checkpoint without its pre-images.
constexpr uint64_t kStateBytes = 1 << 10;
// Buffers kept for reuse: what single steps need, not what a long run frees.
constexpr size_t kMaxFreeImages = 1024;
// More checkpoints than this are thinned to half of it. Exponentially spaced ones are about
// kSpacing * log2(recording), plus a dense run near the present.
constexpr size_t kMaxCheckpoints = 512;
// Checkpoints at distance d from the present may be d / kSpacing apart.
constexpr uint64_t kSpacing = 8;

}  // namespace

uint64_t Checkpoints::bytes() const {
  return (images_ + free_.size()) * kPageBytes + checkpoints_.size() * kStateBytes;
}

std::optional<uint64_t> Checkpoints::NewestAtOrBefore(uint64_t count) const {
  auto it =
      std::partition_point(checkpoints_.begin(), checkpoints_.end(),
                           [&](const Checkpoint& checkpoint) { return checkpoint.count <= count; });
  if (it == checkpoints_.begin()) return std::nullopt;
  return std::prev(it)->count;
}

bool Checkpoints::MayHaveChanged(uint64_t page, uint64_t low, uint64_t high) const {
  const auto held = held_index_.find(page);
  if (held == held_index_.end()) return true;
  // The checkpoint that each state in the range lies after.
  auto it = std::partition_point(checkpoints_.begin(), checkpoints_.end(),
                                 [&](const Checkpoint& at) { return at.count <= low; });
  if (it == checkpoints_.begin()) return true;
  for (--it; it != checkpoints_.end() && it->count < high; ++it) {
    if (held->second >= it->held) return true;
    for (const PreImage& image : it->changed) {
      if (image.page == page) return true;
    }
  }
  return false;
}

std::optional<uint64_t> Checkpoints::NthBefore(uint64_t count, size_t n) const {
  auto end =
      std::partition_point(checkpoints_.begin(), checkpoints_.end(),
                           [&](const Checkpoint& checkpoint) { return checkpoint.count < count; });
  if (static_cast<size_t>(end - checkpoints_.begin()) < n) return std::nullopt;
  return (end - static_cast<ptrdiff_t>(n))->count;
}

void Checkpoints::Reset() {
  for (Checkpoint& checkpoint : checkpoints_) FreeImages(&checkpoint.changed);
  checkpoints_.clear();
  DropPagesFrom(0);
  dirty_.clear();
}

void Checkpoints::AddPage(uint64_t page) {
  const bool is_new = held_index_.emplace(page, held_.size()).second;
  CHECK(is_new);
  held_.push_back(page);
  dirty_.push_back(page);
  cpu_->SetRights(page, PageRights::kReadWrite);
}

void Checkpoints::BeforeChange(uint64_t page) {
  if (cpu_->rights(page) == PageRights::kReadWrite) return;
  OnFirstWrite(page);
  cpu_->SetRights(page, PageRights::kReadWrite);
}

void Checkpoints::OnFirstWrite(uint64_t page) {
  if (!checkpoints_.empty()) {
    PreImage image{page, NewImage()};
    std::memcpy(image.bytes->data(), cpu_->HostPage(page), kPageBytes);
    checkpoints_.back().changed.push_back(std::move(image));
  }
  dirty_.push_back(page);
}

void Checkpoints::Take(size_t cursor) {
  const uint64_t count = cpu_->count();
  if (!checkpoints_.empty() && checkpoints_.back().count == count) return;
  CHECK(checkpoints_.empty() || checkpoints_.back().count < count);
  Checkpoint checkpoint;
  checkpoint.count = count;
  checkpoint.cursor = cursor;
  checkpoint.held = held_.size();
  checkpoint.registers = cpu_->registers();
  checkpoints_.push_back(std::move(checkpoint));
  if (!dirty_.empty()) cpu_->ProtectWrites(dirty_);
  dirty_.clear();
}

size_t Checkpoints::Restore(uint64_t count) {
  auto it =
      std::partition_point(checkpoints_.begin(), checkpoints_.end(),
                           [&](const Checkpoint& checkpoint) { return checkpoint.count <= count; });
  CHECK(it != checkpoints_.begin());
  const size_t index = static_cast<size_t>(std::prev(it) - checkpoints_.begin());
  DropPagesFrom(checkpoints_[index].held);
  ApplyImages(index);
  for (size_t i = index; i < checkpoints_.size(); ++i) FreeImages(&checkpoints_[i].changed);
  checkpoints_.resize(index + 1);

  std::erase_if(dirty_, [&](uint64_t page) { return !held_index_.contains(page); });
  if (!dirty_.empty()) cpu_->ProtectWrites(dirty_);
  dirty_.clear();
  cpu_->SetRegisters(checkpoints_[index].registers);
  cpu_->set_count(checkpoints_[index].count);
  return checkpoints_[index].cursor;
}

// Puts back every page changed since checkpoint `index`: of several pre-images the oldest counts.
void Checkpoints::ApplyImages(size_t index) {
  absl::flat_hash_set<uint64_t> done;
  const bool several = index + 1 < checkpoints_.size();
  for (size_t i = index; i < checkpoints_.size(); ++i) {
    for (const PreImage& image : checkpoints_[i].changed) {
      if (!held_index_.contains(image.page)) continue;
      if (several && !done.insert(image.page).second) continue;
      // A page in an older log may have been protected again since.
      cpu_->SetRights(image.page, PageRights::kReadWrite);
      dirty_.push_back(image.page);
      uint8_t* const bytes = cpu_->HostPage(image.page);
      if (std::memcmp(bytes, image.bytes->data(), kPageBytes) == 0) continue;
      std::memcpy(bytes, image.bytes->data(), kPageBytes);
      cpu_->ContentsChanged(image.page);
    }
  }
}

void Checkpoints::DropPagesFrom(size_t held) {
  if (held == held_.size()) return;
  cpu_->DropRights(absl::MakeConstSpan(held_).subspan(held));
  for (size_t i = held; i < held_.size(); ++i) held_index_.erase(held_[i]);
  held_.resize(held);
}

void Checkpoints::Drop(size_t index) {
  Checkpoint& gone = checkpoints_[index];
  if (index == 0) {
    FreeImages(&gone.changed);
  } else {
    Checkpoint& heir = checkpoints_[index - 1];
    absl::flat_hash_set<uint64_t> known;
    known.reserve(heir.changed.size());
    for (const PreImage& image : heir.changed) known.insert(image.page);
    for (PreImage& image : gone.changed) {
      auto held = held_index_.find(image.page);
      if (known.contains(image.page) || held == held_index_.end() || held->second >= heir.held) {
        continue;
      }
      heir.changed.push_back(std::move(image));
    }
    std::erase_if(gone.changed, [](const PreImage& image) { return image.bytes == nullptr; });
    FreeImages(&gone.changed);
  }
  checkpoints_.erase(checkpoints_.begin() + static_cast<ptrdiff_t>(index));
}

void Checkpoints::DropSparse(size_t max_checkpoints) {
  for (uint64_t spacing = kSpacing; checkpoints_.size() > max_checkpoints && spacing > 0;
       spacing /= 2) {
    const uint64_t present = cpu_->count();
    for (size_t i = checkpoints_.size() - 1; i-- > 1 && checkpoints_.size() > max_checkpoints;) {
      const uint64_t gap = checkpoints_[i + 1].count - checkpoints_[i - 1].count;
      if (gap <= (present - checkpoints_[i - 1].count) / spacing) Drop(i);
    }
  }
}

void Checkpoints::Thin(uint64_t max_bytes) {
  if (checkpoints_.size() > kMaxCheckpoints) DropSparse(kMaxCheckpoints / 2);
  if (bytes() <= max_bytes) return;
  free_.clear();
  while (bytes() > max_bytes && checkpoints_.size() > 2) DropSparse(checkpoints_.size() - 1);
  // Still too much: the oldest go. What lies before the first one left is reached by replaying the
  // segment from its start. The newest stays: the present page states depend on it.
  size_t oldest = 0;
  while (bytes() > max_bytes && oldest + 1 < checkpoints_.size()) {
    FreeImages(&checkpoints_[oldest++].changed);
    free_.clear();
  }
  checkpoints_.erase(checkpoints_.begin(), checkpoints_.begin() + static_cast<ptrdiff_t>(oldest));
}

std::unique_ptr<Checkpoints::PageBytes> Checkpoints::NewImage() {
  ++images_;
  if (free_.empty()) return std::make_unique_for_overwrite<PageBytes>();
  std::unique_ptr<PageBytes> image = std::move(free_.back());
  free_.pop_back();
  return image;
}

void Checkpoints::FreeImages(std::vector<PreImage>* images) {
  images_ -= images->size();
  for (PreImage& image : *images) {
    if (free_.size() < kMaxFreeImages) free_.push_back(std::move(image.bytes));
  }
  images->clear();
}

}  // namespace hindsight
