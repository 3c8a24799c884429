#include "keyframes/timeline/unknown_spans.h"

#include <algorithm>
#include <memory>

#include "base/status_macros.h"

namespace hindsight {

absl::StatusOr<const PageHistory*> UnknownSpans::HistoryOf(const SegmentKey& key) {
  auto it = histories_.find(key);
  if (it == histories_.end()) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                     trace_->LoadSegment(key.first, key.second));
    it = histories_.emplace(key, PageHistory(segment->records())).first;
  }
  return &it->second;
}

absl::StatusOr<std::vector<UnknownSpan>> UnknownSpans::Find(uint64_t address, uint64_t length,
                                                            uint64_t low, uint64_t high) {
  std::vector<UnknownSpan> spans;
  if (length == 0) return spans;
  const Schedule& schedule = process_->schedule();
  const uint64_t first_page = PageOf(address);
  // The last one may be the address space's.
  const uint64_t pages = length == 0 ? 0 : (address % kPageBytes + length - 1) / kPageBytes + 1;
  for (const int32_t thread : process_->threads().all()) {
    if (process_->threads().StartOf(thread) > high) continue;
    const ThreadState& state = process_->thread(thread);
    const uint64_t last = state.SegmentAt(schedule.CountAt(thread, high));
    const uint64_t oldest = state.SegmentAt(schedule.CountAt(thread, low));
    for (const SegmentInfo& info : trace_->segments(thread)) {
      if (info.number < oldest || info.number > last) continue;
      ASSIGN_OR_RETURN(const PageHistory* history, HistoryOf({thread, info.number}));
      for (uint64_t i = 0; !history->empty() && i < pages; ++i) {
        const uint64_t page = first_page + i * kPageBytes;
        for (const PageHistory::Span& span : history->SpansOf(page)) {
          const uint64_t from = schedule.MomentTo(thread, span.left);
          const uint64_t to = schedule.MomentFrom(thread, span.known.value_or(state.end_count()));
          if (from < high && to > low) spans.push_back({thread, page, from, to});
        }
      }
    }
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const UnknownSpan& a, const UnknownSpan& b) { return a.from > b.from; });
  return spans;
}

}  // namespace hindsight
