#include "tracefmt/ring/trace_history.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/ring/trimmed_event.h"

namespace hindsight {

absl::Status TraceHistory::BeginSegment(int32_t thread, uint64_t number) {
  auto [kept, is_new] = segments_.try_emplace(thread);
  kept->second.push_back({.number = number, .mark = newest_});
  if (!is_new) return absl::OkStatus();
  const absl::Status made = directory_.MakeDirectory(absl::StrCat("threads/", thread));
  return absl::IsAlreadyExists(made) ? absl::OkStatus() : made;
}

void TraceHistory::AddRecords(int32_t thread, uint64_t records) {
  segments_[thread].back().records += records;
}

void TraceHistory::AddKeyframe(KeyframeMark mark) {
  newest_ = mark.number;
  files_.emplace_back(mark.number, mark.self_contained);
  mark.time_ns = ring_->NowNs();
  marks_.push_back(std::move(mark));
}

// Of marks_; 0: there is none.
size_t TraceHistory::NextBeginning() const {
  for (size_t i = 1; i < marks_.size(); ++i) {
    if (marks_[i].may_begin) return i;
  }
  return 0;
}

std::optional<uint64_t> TraceHistory::OldestEnd() const {
  if (remove_) return end_ns_;
  const size_t next = NextBeginning();
  if (next == 0) return std::nullopt;
  return marks_[next].time_ns;
}

size_t TraceHistory::SegmentsBefore(int32_t thread, const std::deque<KeptSegment>& segments,
                                    const KeyframeMark& first) const {
  const auto own = std::find_if(first.segments.begin(), first.segments.end(),
                                [thread](const auto& state) { return state.first == thread; });
  const auto kept = std::find_if(segments.begin(), segments.end(), [&](const KeptSegment& segment) {
    return own != first.segments.end() ? segment.number >= own->second
                                       : segment.mark >= first.number;
  });
  return static_cast<size_t>(kept - segments.begin());
}

ProcessEvent TraceHistory::Trimmed(const KeyframeMark& first) const {
  TrimmedEvent trimmed = {.oldest_keyframe = first.number,
                          .others_write = first.others_write,
                          .segments = dropped_segments_,
                          .keyframes = dropped_keyframes_,
                          .events = dropped_events_,
                          .time_ns = first.time_ns,
                          .program = first.program};
  for (const auto& [thread, segments] : segments_) {
    const size_t before = SegmentsBefore(thread, segments, first);
    trimmed.first_segments.emplace_back(
        thread, before == segments.size() ? segments.back().number + 1 : segments[before].number);
    trimmed.segments += before;
  }
  return ToEvent(trimmed);
}

absl::Status TraceHistory::Delete(const std::string& name) {
  ASSIGN_OR_RETURN(const uint64_t bytes, directory_.Delete(name));
  bytes_on_disk_->fetch_sub(bytes, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status TraceHistory::DropOldest() {
  if (remove_) {
    const std::function<absl::Status()> remove = std::exchange(remove_, nullptr);
    return remove();  // may delete this
  }
  const size_t next = NextBeginning();
  dropped_keyframes_ += next;
  marks_.erase(marks_.begin(), marks_.begin() + static_cast<ptrdiff_t>(next));
  const KeyframeMark& first = marks_.front();
  std::vector<ProcessEvent> beginning = first.carried;
  dropped_events_ = first.events_before;
  beginning.insert(beginning.begin(), Trimmed(first));
  RETURN_IF_ERROR(drop_events_(first.events_offset, beginning));
  dropped_events_ = first.events_before - beginning.size();
  // From here on nobody looks for the rest.
  std::vector<int32_t> gone;
  for (auto& [thread, segments] : segments_) {
    const std::string directory = absl::StrCat("threads/", thread);
    const size_t before = SegmentsBefore(thread, segments, first);
    for (size_t i = 0; i < before; ++i) {
      RETURN_IF_ERROR(Delete(absl::StrCat(directory, "/", segments[i].number, ".seg")));
    }
    dropped_segments_ += before;
    segments.erase(segments.begin(), segments.begin() + static_cast<ptrdiff_t>(before));
    if (!segments.empty()) continue;
    RETURN_IF_ERROR(directory_.DeleteDirectory(directory));
    gone.push_back(thread);
  }
  for (const int32_t thread : gone) segments_.erase(thread);
  // Pages of the first one may be in those since the last self-contained one.
  size_t needed = 0;
  for (size_t i = 0; i < files_.size() && files_[i].first <= first.number; ++i) {
    if (files_[i].second) needed = i;
  }
  for (; needed > 0; --needed) {
    RETURN_IF_ERROR(Delete(absl::StrCat("full/", files_.front().first)));
    files_.pop_front();
  }
  RETURN_IF_ERROR(modules_->DropBefore(first.number));
  const std::lock_guard<std::mutex> lock(mutex_);
  gone_.insert(gone_.end(), gone.begin(), gone.end());
  return absl::OkStatus();
}

// The new name is not one that readers look at.
absl::Status TraceHistory::RemoveAll() {
  const std::string gone = name_ + ".tmp";
  RETURN_IF_ERROR(above_.Rename(name_, gone));
  const OutputDirectory trace = above_.In(gone);
  const auto remove = [&](const std::string& file) {
    const absl::StatusOr<uint64_t> bytes = trace.Delete(file);
    if (bytes.ok()) bytes_on_disk_->fetch_sub(*bytes, std::memory_order_relaxed);
  };
  for (const auto& [thread, segments] : segments_) {
    const std::string directory = absl::StrCat("threads/", thread);
    for (const KeptSegment& segment : segments) {
      remove(absl::StrCat(directory, "/", segment.number, ".seg"));
    }
    trace.DeleteDirectory(directory).IgnoreError();
  }
  for (const auto& [number, self_contained] : files_) remove(absl::StrCat("full/", number));
  for (const char* file : {"modules/list", "events", "lock", "manifest"}) remove(file);
  for (const char* directory : {"threads", "full", "modules"}) {
    trace.DeleteDirectory(directory).IgnoreError();
  }
  RETURN_IF_ERROR(modules_->DropAll());
  return above_.DeleteDirectory(gone);
}

uint64_t TraceHistory::SegmentsOf(int32_t thread) const {
  const auto found = segments_.find(thread);
  return found == segments_.end() ? 0 : found->second.size();
}

uint64_t TraceHistory::RecordsOf(int32_t thread) const {
  uint64_t records = 0;
  if (const auto found = segments_.find(thread); found != segments_.end()) {
    for (const KeptSegment& segment : found->second) records += segment.records;
  }
  return records;
}

std::vector<int32_t> TraceHistory::TakeGone() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(gone_, {});
}

}  // namespace hindsight
