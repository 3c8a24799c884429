#include "keyframes/memory/page_replacements.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "tracefmt/manifest.h"

namespace hindsight {

absl::StatusOr<const TouchedPages*> TouchedSegments::Of(const SegmentKey& key) {
  auto it = touched_.find(key);
  if (it == touched_.end()) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                     trace_->LoadSegment(key.first, key.second));
    it = touched_.emplace(key, TouchedPages(segment->records())).first;
  }
  return &it->second;
}

absl::StatusOr<std::optional<SeenReplacement>> PageReplacements::Since(const SegmentKey& key,
                                                                       uint64_t moment,
                                                                       uint64_t page) const {
  if (!RunsThreadsAtOnce(trace_->manifest())) return std::nullopt;
  const Schedule& schedule = process_->schedule();
  const int32_t thread = key.first;
  const uint64_t number = key.second;
  const std::vector<SegmentInfo>& segments = trace_->segments(thread);
  const auto segment =
      std::partition_point(segments.begin(), segments.end(),
                           [&](const SegmentInfo& info) { return info.number < number; });
  if (segment == segments.end()) return std::nullopt;
  // Most pages are never replaced: there is no need to look at the segment.
  const uint64_t began = schedule.MomentTo(thread, segment->first_count);
  if (!origins_->LastReplacement(moment, began, page).has_value()) return std::nullopt;
  ASSIGN_OR_RETURN(const TouchedPages* touched, touched_->Of(key));
  const uint64_t count = schedule.CountAt(thread, moment);
  const TouchedPage* const last = touched->LastOf(page, count);
  if (last == nullptr) return std::nullopt;
  const auto by = origins_->LastReplacement(moment, schedule.MomentTo(thread, last->count), page);
  if (!by.has_value()) return std::nullopt;
  uint64_t first = schedule.CountAt(thread, by->moment);
  // Another thread has replaced it while this one was in a system call, or began the segment with
  // what it had.
  const bool begins = first == segment->first_count && !touched->CameInAgain(*last);
  if (by->thread != thread && (touched->IsCall(first) || begins)) ++first;
  if (last->count >= first || touched->MayComeInUnlisted(page, first, count)) return std::nullopt;
  return SeenReplacement{.by = *by, .first_count = first};
}

absl::StatusOr<bool> PageReplacements::IsOfTurnToCome(const SegmentKey& key, uint64_t moment,
                                                      uint64_t page) const {
  const Schedule& schedule = process_->schedule();
  const size_t turn = schedule.NextSliceOf(key.first, moment);
  if (turn == schedule.slices().size()) return false;
  const uint64_t begins = schedule.slices()[turn].moment;
  if (!origins_->LastReplacement(begins, moment, page).has_value()) return false;
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                   trace_->LoadSegment(key.first, key.second));
  const uint64_t count = schedule.CountAt(key.first, moment);
  return TouchedPages::ComesInAt(segment->records(), page, count);
}

}  // namespace hindsight
