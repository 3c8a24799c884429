#include "keyframes/verify/verify_findings.h"

#include <algorithm>
#include <variant>

namespace hindsight {

void VerifyFindings::AddSegment(const Segment& segment, const SegmentCheck& check) {
  std::lock_guard<std::mutex> lock(mutex_);
  counts_.Add(check.counts());
  for (const CheckedPage& page : check.checked_pages()) {
    keyframe_pages_[{page.keyframe, page.page}] |= page.equal;
  }
  const SegmentInfo& info = segment.info();
  ThreadContents& contents = contents_[info.thread];
  contents.records += segment.stored_records();
  ThreadEnd& end = ends_[info.thread];
  if (info.number < end.segment) return;
  const bool gap =
      !segment.records().empty() && std::holds_alternative<Gap>(segment.records().back().body);
  end = {info.number, segment.end_count(), gap || segment.end_registers() != nullptr};
  contents.end_count = end.count;
}

void VerifyFindings::AddDifference(uint64_t count, absl::Status status) {
  std::lock_guard<std::mutex> lock(mutex_);
  differences_.push_back({count, std::move(status)});
}

uint64_t VerifyFindings::segments_failed() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return differences_.size();
}

absl::Status VerifyFindings::FirstDifference() const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto first =
      std::min_element(differences_.begin(), differences_.end(),
                       [](const Difference& a, const Difference& b) { return a.count < b.count; });
  return first == differences_.end() ? absl::OkStatus() : first->status;
}

VerifyCounts VerifyFindings::counts() const {
  std::lock_guard<std::mutex> lock(mutex_);
  VerifyCounts counts = counts_;
  for (const auto& [page, equal] : keyframe_pages_) {
    ++(equal ? counts.keyframe_pages_equal : counts.keyframe_pages_unsure);
  }
  return counts;
}

}  // namespace hindsight
