// MemoryView: pages of the thread that runs, where others ran at the same time.

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/status_macros.h"
#include "keyframes/memory/learned_slices.h"
#include "keyframes/memory/memory_view.h"
#include "tracefmt/manifest.h"

namespace hindsight {
namespace {

// Pages kept of those merged in one slice.
constexpr size_t kMaxMerged = 1024;

}  // namespace

// Whether what the view of `thread`, which makes the next transition, has of the page is what the
// thread would find; read into `out`.
absl::StatusOr<bool> MemoryView::HasOwn(const SegmentReplay& present, int32_t thread,
                                        uint64_t moment, uint64_t address,
                                        absl::Span<uint8_t> out) {
  // The view of one that waits may be older than what others have done since.
  if (!IsNewest(thread, moment) || !present.ReadHeld(address, out)) return false;
  const SegmentKey key = {thread, present.segment().info().number};
  if (present.before_turn()) {
    ASSIGN_OR_RETURN(const bool later, replacements_.IsOfTurnToCome(key, moment, PageOf(address)));
    if (later) return false;
  }
  ASSIGN_OR_RETURN(const auto replaced, replacements_.Since(key, moment, PageOf(address)));
  return !replaced.has_value();
}

// Adds what a thread's view has of a page. Who has replaced it has forgotten that.
void MemoryView::Add(Knowledge knowledge, const std::optional<SeenReplacement>& replaced,
                     Findings* findings) {
  if (!replaced.has_value()) {
    findings->known.push_back(std::move(knowledge));
  } else if (replaced->by.thread != knowledge.thread || !replaced->by.is_forgotten) {
    findings->outdated.push_back({std::move(knowledge), *replaced});
  }
}

// What the thread has of the page, but for what it has neither learned nor written since the page
// was replaced: that is as in `others`.
absl::StatusOr<MemoryView::Knowledge> MemoryView::WithoutOld(const Outdated& outdated,
                                                             const Question& question,
                                                             absl::Span<const uint8_t> others) {
  Knowledge newer = outdated.knowledge;
  PageBits differ;
  for (size_t i = 0; i < others.size(); ++i) differ[i] = newer.bytes[i] != others[i];
  if (differ.none()) return newer;
  if (question.moves > 0 && question.searching) return PageNotKnown(question.page);
  const SeenReplacement& replaced = outdated.replaced;
  const PageBits asked = question.wanted == nullptr ? differ : differ & *question.wanted;
  std::vector<Learned> learned(kPageBytes);
  if (asked.any()) {
    ASSIGN_OR_RETURN(
        learned, views_->LastKnown(newer.thread, newer.ended, question.moment, question.page, asked,
                                   replaced.by.moment, question.interrupt));
  }
  for (size_t i = 0; i < others.size(); ++i) {
    const uint64_t first = replaced.first_count + (learned[i].imported ? 0 : 1);
    if (differ[i] && (!asked[i] || learned[i].count < first)) newer.bytes[i] = others[i];
  }
  return newer;
}

// Another thread than `thread` may have written in a slice that began before that of `since`, after
// its last event there: where the first such slice begins, or `since`. Those that began long before
// are not looked at: most such threads wait.
uint64_t MemoryView::BeginOfLateWrites(int32_t thread, uint64_t since) const {
  constexpr size_t kMostSlices = 256;
  const std::vector<Slice>& slices = process_->schedule().slices();
  const size_t last = process_->schedule().SliceAt(since);
  LearnedSlices learned(process_);
  for (const int32_t other : process_->threads().all()) {
    if (other == thread || process_->threads().StartOf(other) > since) continue;
    const std::vector<uint32_t>& indices = process_->schedule().slices_of(other);
    const auto after = std::upper_bound(indices.begin(), indices.end(), last);
    if (after == indices.begin() || last - *std::prev(after) > kMostSlices) continue;
    const Slice& slice = slices[*std::prev(after)];
    if (learned.LastEvent(other, *std::prev(after)) < slice.count + slice.length) {
      since = std::min(since, slice.moment);
    }
  }
  return since;
}

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
  ASSIGN_OR_RETURN(const TouchedPages* touched, touched_.Of({thread, number}));
  const TouchedPage* const last = touched->LastOf(page, schedule.CountAt(thread, moment));
  if (last == nullptr) return std::nullopt;
  const uint64_t looked = std::min(moment, schedule.MomentFrom(thread, last->count));
  const uint64_t since = BeginOfLateWrites(thread, looked);
  const size_t slice = schedule.SliceAt(looked);
  for (size_t i = schedule.SliceAt(moment); i > slice; --i) {
    if (schedule.slices()[i].thread != thread && schedule.slices()[i].length > 0) return since;
  }
  return since < looked ? std::optional(since) : std::nullopt;
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
  ASSIGN_OR_RETURN(const bool is_own, HasOwn(*present, thread, moment, page, absl::MakeSpan(own)));
  if (!is_own) {
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

// Whether the thread has imported what others had, in states (from, to]: it may know by now how far
// they had come (seen_stores.h).
absl::StatusOr<bool> MemoryView::HasSeenOthers(const SegmentKey& key, uint64_t from, uint64_t to) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                   trace_->LoadSegment(key.first, key.second));
  const std::vector<Record>& records = segment->records();
  auto it = std::partition_point(records.begin(), records.end(),
                                 [&](const Record& record) { return record.count <= from; });
  for (; it != records.end() && it->count <= to; ++it) {
    const auto* import = std::get_if<PageImport>(&it->body);
    if (import != nullptr && import->known_mask != 0) return true;
  }
  return false;
}

// What others have written is the same as long as the thread's slice lasts, and it sees no more of
// them. What the thread itself has written or imported since that was looked up is newer.
absl::Status MemoryView::ReadMerged(const Question& question, const Page& own, uint64_t offset,
                                    absl::Span<uint8_t> out) {
  const Schedule& schedule = process_->schedule();
  const std::tuple slice(question.thread, question.number, schedule.SliceAt(question.moment));
  if (merged_at_ != slice || merged_.size() > kMaxMerged) merged_.clear();
  merged_at_ = slice;
  std::unique_ptr<Merged>& merged = merged_[question.page];
  bool is_old = merged == nullptr || question.moment < merged->moment;
  if (!is_old && question.moment > merged->moment) {
    ASSIGN_OR_RETURN(is_old, HasSeenOthers({question.thread, question.number},
                                           schedule.CountAt(question.thread, merged->moment),
                                           schedule.CountAt(question.thread, question.moment)));
  }
  if (is_old) {
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
