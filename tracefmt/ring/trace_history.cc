#include "tracefmt/ring/trace_history.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/ring/trimmed_event.h"

namespace hindsight {

uint64_t TraceHistory::Shares::Largest() const {
  uint64_t largest = std::max({ended, pages, common});
  for (const auto& [thread, bytes] : living) largest = std::max(largest, bytes);
  return largest;
}

absl::Status TraceHistory::BeginSegment(int32_t thread, uint64_t number) {
  Thread& part = threads_.try_emplace(thread, Thread{.from = newest_}).first->second;
  const bool has_directory = !part.segments.empty();
  part.segments.push_back({.number = number, .mark = newest_});
  part.next_number = number + 1;
  part.last_mark = newest_;
  if (has_directory) return absl::OkStatus();
  const absl::Status made = directory_.MakeDirectory(absl::StrCat("threads/", thread));
  return absl::IsAlreadyExists(made) ? absl::OkStatus() : made;
}

void TraceHistory::AddRecords(int32_t thread, uint64_t records, uint64_t bytes) {
  Thread& part = threads_[thread];
  part.segments.back().records += records;
  part.segments.back().bytes += bytes;
  part.bytes += bytes;
}

void TraceHistory::AddKeyframe(KeyframeMark mark) {
  newest_ = mark.number;
  files_.push_back(
      {.number = mark.number, .self_contained = mark.self_contained, .page_bytes = mark.bytes});
  mark.time_ns = ring_->NowNs();
  std::sort(mark.segments.begin(), mark.segments.end());
  marks_.push_back(std::move(mark));
}

// Of marks_; 0: there is none.
size_t TraceHistory::NextBeginning(size_t after) const {
  for (size_t i = after + 1; i < marks_.size(); ++i) {
    if (marks_[i].may_begin) return i;
  }
  return 0;
}

// But for the oldest of all; null: there is none.
const KeyframeMark* TraceHistory::NewestBeginning() const {
  for (size_t i = marks_.size(); i > 1; --i) {
    if (marks_[i - 1].may_begin) return &marks_[i - 1];
  }
  return nullptr;
}

const KeyframeMark* TraceHistory::MarkOf(uint64_t number) const {
  const auto mark = std::partition_point(
      marks_.begin(), marks_.end(), [&](const KeyframeMark& one) { return one.number < number; });
  return mark == marks_.end() || mark->number != number ? nullptr : &*mark;
}

// Pages of a full keyframe may be in those since the last self-contained one.
uint64_t TraceHistory::FirstFileFor(uint64_t keyframe) const {
  uint64_t first = 0;
  for (const KeyframeFile& file : files_) {
    if (file.number <= keyframe && (file.self_contained || first == 0)) first = file.number;
  }
  return first;
}

std::optional<uint64_t> TraceHistory::OldestEnd() const {
  if (remove_) return end_ns_;
  const size_t next = NextBeginning(0);
  if (next == 0) return std::nullopt;
  return marks_[next].time_ns;
}

// How many of a thread's segments lie before `first`.
size_t TraceHistory::SegmentsBefore(int32_t thread, const Thread& part,
                                    const KeyframeMark& first) const {
  const auto own = std::lower_bound(first.segments.begin(), first.segments.end(),
                                    std::pair(thread, uint64_t{0}));
  const bool lives = own != first.segments.end() && own->first == thread;
  const auto kept = std::partition_point(
      part.segments.begin(), part.segments.end(), [&](const KeptSegment& segment) {
        return lives ? segment.number < own->second : segment.mark < first.number;
      });
  return static_cast<size_t>(kept - part.segments.begin());
}

size_t TraceHistory::SegmentsToDrop(int32_t thread, const Thread& part) const {
  const KeyframeMark* const from = MarkOf(part.from);
  return from == nullptr ? 0 : SegmentsBefore(thread, part, *from);
}

ProcessEvent TraceHistory::Trimmed() const {
  const KeyframeMark& first = marks_.front();
  TrimmedEvent trimmed = {.oldest_keyframe = first.number,
                          .whole_keyframe = whole_,
                          .others_write = MarkOf(whole_)->others_write,
                          .segments = dropped_segments_,
                          .keyframes = dropped_keyframes_,
                          .events = first.events_before,
                          .time_ns = first.time_ns,
                          .program = first.program};
  for (const auto& [thread, part] : threads_) {
    const size_t before = SegmentsToDrop(thread, part);
    trimmed.first_segments.emplace_back(
        thread, before == part.segments.size() ? part.next_number : part.segments[before].number);
    trimmed.segments += before;
  }
  return ToEvent(trimmed);
}

// What the events begin with. Of threads that begin later than the trace, positions may count from
// an instruction that went with their segments.
std::vector<ProcessEvent> TraceHistory::Beginning() const {
  std::vector<ProcessEvent> events = {Trimmed()};
  const KeyframeMark& first = marks_.front();
  events.insert(events.end(), first.carried.begin(), first.carried.end());
  for (const auto& [thread, part] : threads_) {
    const KeyframeMark* const from = MarkOf(part.from);
    if (from == nullptr || from == &first) continue;
    for (const ProcessEvent& start : from->instructions) {
      if (start.thread == thread) events.push_back(start);
    }
  }
  return events;
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
  AdvanceAll(marks_[NextBeginning(0)].number);
  return Commit();
}

bool TraceHistory::HasEnded(int32_t thread, const Thread& part) const {
  const KeyframeMark& newest = marks_.back();
  const auto own = std::lower_bound(newest.segments.begin(), newest.segments.end(),
                                    std::pair(thread, uint64_t{0}));
  const bool lives = own != newest.segments.end() && own->first == thread;
  return !lives && part.last_mark < newest.number;
}

TraceHistory::Shares TraceHistory::SharesNow() const {
  Shares shares;
  const KeyframeMark* const last = NewestBeginning();
  if (last == nullptr) return shares;
  for (const auto& [thread, part] : threads_) {
    uint64_t bytes = part.bytes;
    for (size_t i = SegmentsBefore(thread, part, *last); i < part.segments.size(); ++i) {
      bytes -= part.segments[i].bytes;
    }
    if (HasEnded(thread, part)) {
      shares.ended += bytes;
    } else {
      shares.living[thread] = bytes;
    }
  }
  const uint64_t needed = FirstFileFor(last->number);
  for (const KeyframeFile& file : files_) {
    if (file.number < needed) shares.pages += file.page_bytes;
    shares.common += file.head_bytes;
  }
  shares.common += last->events_offset - marks_.front().events_offset;
  return shares;
}

uint64_t TraceHistory::LargestShare() const {
  if (!remove_) return SharesNow().Largest();
  uint64_t bytes = event_bytes_at_end_ + modules_->bytes();
  for (const auto& [thread, part] : threads_) bytes += part.bytes;
  for (const KeyframeFile& file : files_) bytes += file.page_bytes + file.head_bytes;
  return bytes;
}

// Shares that are about as large go along: what the events begin with is written once for all.
absl::Status TraceHistory::DropFromLargest() {
  if (remove_) return DropOldest();
  const Shares shares = SharesNow();
  const uint64_t largest = shares.Largest();
  const auto is_large = [&](uint64_t bytes) { return bytes > 0 && bytes >= largest - largest / 8; };
  if (is_large(shares.common)) AdvanceAll(marks_[1].number);
  if (is_large(shares.ended)) AdvanceEnded();
  if (is_large(shares.pages)) AdvanceWhole();
  for (const auto& [thread, bytes] : shares.living) {
    if (is_large(bytes)) Advance(thread, &threads_.at(thread));
  }
  return Commit();
}

// The thread begins at the next full keyframe that leaves something of it behind.
void TraceHistory::Advance(int32_t thread, Thread* part) {
  for (size_t next = NextBeginning(0); next != 0; next = NextBeginning(next)) {
    const KeyframeMark& mark = marks_[next];
    if (mark.number <= part->from || SegmentsBefore(thread, *part, mark) == 0) continue;
    part->from = mark.number;
    whole_ = std::max(whole_, mark.number);
    return;
  }
}

// The oldest of those that have ended go.
void TraceHistory::AdvanceEnded() {
  uint64_t oldest = newest_;
  for (const auto& [thread, part] : threads_) {
    if (part.segments.empty() || !HasEnded(thread, part)) continue;
    oldest = std::min(oldest, part.segments.front().mark);
  }
  for (auto& [thread, part] : threads_) {
    if (part.segments.empty() || !HasEnded(thread, part)) continue;
    if (part.segments.front().mark == oldest) Advance(thread, &part);
  }
}

// The trace is whole from a later full keyframe on, which needs fewer pages.
void TraceHistory::AdvanceWhole() {
  const uint64_t needed = FirstFileFor(whole_);
  for (size_t next = NextBeginning(0); next != 0; next = NextBeginning(next)) {
    const uint64_t number = marks_[next].number;
    if (number <= whole_ || FirstFileFor(number) == needed) continue;
    whole_ = number;
    return;
  }
}

// No thread begins earlier.
void TraceHistory::AdvanceAll(uint64_t keyframe) {
  for (auto& [thread, part] : threads_) part.from = std::max(part.from, keyframe);
  for (size_t next = NextBeginning(0); next != 0 && whole_ < keyframe; next = NextBeginning(next)) {
    if (marks_[next].number >= keyframe) whole_ = marks_[next].number;
  }
}

// The full keyframe at which the first thread begins; not before an exec: what ran then is gone.
uint64_t TraceHistory::OldestNeeded() const {
  uint64_t oldest = whole_;
  for (const auto& [thread, part] : threads_) {
    if (SegmentsToDrop(thread, part) < part.segments.size()) oldest = std::min(oldest, part.from);
  }
  const uint64_t execs = MarkOf(whole_)->execs;
  const auto same = std::find_if(marks_.begin(), marks_.end(),
                                 [&](const KeyframeMark& mark) { return mark.execs == execs; });
  return std::max(oldest, same->number);
}

// What was decided becomes so.
absl::Status TraceHistory::Commit() {
  AdvanceAll(OldestNeeded());
  const uint64_t oldest = OldestNeeded();
  while (marks_.front().number < oldest) {
    ++dropped_keyframes_;
    marks_.pop_front();
  }
  const KeyframeMark& first = marks_.front();
  const std::vector<ProcessEvent> beginning = Beginning();
  RETURN_IF_ERROR(drop_events_(first.events_offset, beginning));
  dropped_events_ = first.events_before - beginning.size();
  // From here on nobody looks for the rest.
  RETURN_IF_ERROR(DropSegments());
  RETURN_IF_ERROR(DropKeyframes());
  return modules_->DropBefore(first.number);
}

absl::Status TraceHistory::DropSegments() {
  const uint64_t oldest = marks_.front().number;
  std::vector<int32_t> gone;
  for (auto& [thread, part] : threads_) {
    const std::string directory = absl::StrCat("threads/", thread);
    const bool had_any = !part.segments.empty();
    for (size_t before = SegmentsToDrop(thread, part); before > 0; --before) {
      const KeptSegment& segment = part.segments.front();
      RETURN_IF_ERROR(Delete(absl::StrCat(directory, "/", segment.number, ".seg")));
      part.bytes -= segment.bytes;
      part.segments.pop_front();
      ++dropped_segments_;
    }
    if (!part.segments.empty()) continue;
    if (had_any) RETURN_IF_ERROR(directory_.DeleteDirectory(directory));
    // As long as there are events of it, its number must not become another's.
    if (whole_ == oldest || part.last_mark + 1 < oldest) gone.push_back(thread);
  }
  for (const int32_t thread : gone) threads_.erase(thread);
  const std::lock_guard<std::mutex> lock(mutex_);
  gone_.insert(gone_.end(), gone.begin(), gone.end());
  return absl::OkStatus();
}

// The newest first: those that still have their pages refer to none that has lost them.
absl::Status TraceHistory::DropKeyframes() {
  const uint64_t oldest = marks_.front().number, needed = FirstFileFor(whole_);
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
    if (file->number >= needed) continue;
    const std::string name = absl::StrCat("full/", file->number);
    if (file->number >= oldest && file->head_bytes == 0) {
      ASSIGN_OR_RETURN(file->head_bytes, write_head_(file->number));
    }
    if (file->page_bytes != 0) RETURN_IF_ERROR(Delete(name));
    file->page_bytes = 0;
    if (file->number < oldest && file->head_bytes != 0) RETURN_IF_ERROR(Delete(name + ".head"));
  }
  while (files_.front().number < std::min(oldest, needed)) files_.pop_front();
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
  for (const auto& [thread, part] : threads_) {
    const std::string directory = absl::StrCat("threads/", thread);
    for (const KeptSegment& segment : part.segments) {
      remove(absl::StrCat(directory, "/", segment.number, ".seg"));
    }
    trace.DeleteDirectory(directory).IgnoreError();
  }
  for (const KeyframeFile& file : files_) {
    if (file.page_bytes != 0) remove(absl::StrCat("full/", file.number));
    if (file.head_bytes != 0) remove(absl::StrCat("full/", file.number, ".head"));
  }
  for (const char* file : {"modules/list", "events", "lock", "manifest"}) remove(file);
  for (const char* directory : {"threads", "full", "modules"}) {
    trace.DeleteDirectory(directory).IgnoreError();
  }
  RETURN_IF_ERROR(modules_->DropAll());
  return above_.DeleteDirectory(gone);
}

uint64_t TraceHistory::SegmentsOf(int32_t thread) const {
  const auto found = threads_.find(thread);
  return found == threads_.end() ? 0 : found->second.segments.size();
}

uint64_t TraceHistory::RecordsOf(int32_t thread) const {
  uint64_t records = 0;
  if (const auto found = threads_.find(thread); found != threads_.end()) {
    for (const KeptSegment& segment : found->second.segments) records += segment.records;
  }
  return records;
}

std::vector<int32_t> TraceHistory::TakeGone() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(gone_, {});
}

}  // namespace hindsight
