// MemoryView: pages of the thread that runs, where others ran at the same time.

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "keyframes/memory/memory_view.h"
#include "tracefmt/manifest.h"

namespace hindsight {
namespace {

// Pages kept of those merged in one slice.
constexpr size_t kMaxMerged = 1024;

}  // namespace

// Where threads ran at the same time, one that runs may not have looked at what others have written
// since `page` came into its view, or its segment began: since when. nullopt: it has, or nobody can
// have written.
absl::StatusOr<std::optional<uint64_t>> MemoryView::MayBeOldSince(int32_t thread, uint64_t number,
                                                                  uint64_t moment, uint64_t page) {
  const Schedule& schedule = process_->schedule();
  if (!RunsThreadsAtOnce(trace_->manifest()) || process_->threads().all().size() == 1 ||
      !process_->IsWhole(moment)) {
    return std::nullopt;
  }
  const MapRegion* const region = process_->maps().FindWithStackGrowth(moment, page);
  const bool is_fixed =
      region != nullptr && region->inode != 0 && (region->protection & PROT_WRITE) == 0;
  if (is_fixed) return std::nullopt;
  ASSIGN_OR_RETURN(const std::vector<Touched>* touched, TouchedPages({thread, number}));
  const Touched* const last = LastOf(*touched, page, schedule.CountAt(thread, moment));
  if (last == nullptr) return std::nullopt;
  const uint64_t since = std::min(moment, schedule.MomentFrom(thread, last->count));
  const size_t slice = schedule.SliceAt(since);
  for (size_t i = schedule.SliceAt(moment); i > slice; --i) {
    if (schedule.slices()[i].thread != thread && schedule.slices()[i].length > 0) return since;
  }
  return std::nullopt;
}

absl::StatusOr<size_t> MemoryView::ReadFew(int32_t thread, uint64_t moment, uint64_t address,
                                           absl::Span<uint8_t> out,
                                           const std::atomic<bool>* interrupt) {
  const uint64_t page = PageOf(address), offset = address - page;
  if (out.size() > kPageBytes - offset || !IsNewest(thread, moment)) {
    return Read(thread, moment, address, out, interrupt);
  }
  ASSIGN_OR_RETURN(const SegmentReplay* const present, views_->ReplayAt(thread, moment, interrupt));
  Page own;
  if (!present->ReadHeld(page, absl::MakeSpan(own))) {
    return Read(thread, moment, address, out, interrupt);
  }
  const uint64_t number = present->segment().info().number;
  ASSIGN_OR_RETURN(const std::optional<uint64_t> old_since,
                   MayBeOldSince(thread, number, moment, page));
  PageBits wanted;
  for (uint64_t i = offset; i < offset + out.size(); ++i) wanted.set(i);
  if (old_since.has_value()) {
    ASSIGN_OR_RETURN(const Merged merged, Merge({.thread = thread,
                                                 .number = number,
                                                 .ask_own = true,
                                                 .moment = moment,
                                                 .page = page,
                                                 .is_own = true,
                                                 .since = *old_since,
                                                 .wanted = &wanted,
                                                 .interrupt = interrupt},
                                                own));
    own = merged.bytes;
  }
  std::copy_n(own.begin() + offset, out.size(), out.begin());
  return out.size();
}

// What others have written is the same as long as the thread's slice lasts. What the thread itself
// has written or imported since that was looked up is newer.
absl::Status MemoryView::ReadMerged(const Question& question, const Page& own, uint64_t offset,
                                    absl::Span<uint8_t> out) {
  const Schedule& schedule = process_->schedule();
  const std::tuple slice(question.thread, question.number, schedule.SliceAt(question.moment));
  if (merged_at_ != slice || merged_.size() > kMaxMerged) merged_.clear();
  merged_at_ = slice;
  std::unique_ptr<Merged>& merged = merged_[question.page];
  if (merged == nullptr || question.moment < merged->moment) {
    merged = nullptr;
    ASSIGN_OR_RETURN(Merged found, Merge(question, own));
    merged = std::make_unique<Merged>(found);
  }
  PageBits others;
  for (size_t i = offset; i < offset + out.size(); ++i) others[i] = merged->others[i];
  std::copy_n(own.begin() + offset, out.size(), out.begin());
  if (others.none()) return absl::OkStatus();
  std::vector<Learned> learned(kPageBytes);
  if (question.moment != merged->moment) {
    ASSIGN_OR_RETURN(
        learned, views_->LastKnown(question.thread, std::nullopt, question.moment, question.page,
                                   others, merged->moment, question.interrupt));
  }
  const uint64_t then = schedule.CountAt(question.thread, merged->moment);
  for (size_t i = offset; i < offset + out.size(); ++i) {
    if (others[i] && learned[i].count <= then) out[i - offset] = merged->bytes[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<MemoryView::Merged> MemoryView::Merge(const Question& question, const Page& own) {
  Merged merged = {.moment = question.moment, .bytes = own, .others = {}};
  const absl::Status status = Find(question, absl::MakeSpan(merged.bytes));
  if (absl::IsNotFound(status)) {
    merged.bytes = own;
  } else {
    RETURN_IF_ERROR(status);
  }
  for (size_t i = 0; i < own.size(); ++i) merged.others[i] = merged.bytes[i] != own[i];
  return merged;
}

}  // namespace hindsight
