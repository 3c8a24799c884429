#include "keyframes/memory_view.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// Watched pages remembered at segments' ends; beyond this they are found by replay again.
constexpr size_t kMaxRemembered = 4096;
// Pages kept of those found for one moment.
constexpr size_t kMaxFound = 1024;
constexpr uint64_t kLinesPerPage = kPageBytes / kLineBytes;

absl::Status NotKnown(uint64_t page) {
  return absl::NotFoundError(absl::StrFormat("memory at 0x%x is not in the recording here", page));
}

uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

bool Raised(const std::atomic<bool>* interrupt) {
  return interrupt != nullptr && interrupt->load(std::memory_order_relaxed);
}

}  // namespace

absl::StatusOr<size_t> MemoryView::Read(int32_t thread, uint64_t moment, uint64_t address,
                                        absl::Span<uint8_t> out,
                                        const std::atomic<bool>* interrupt) {
  if (found_at_ != std::pair(thread, moment)) found_.clear();
  found_at_ = {thread, moment};
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t at = address + done;
    if (at < address) break;  // past the end of the address space
    const uint64_t in_page = at % kPageBytes;
    const size_t size = std::min<size_t>(out.size() - done, kPageBytes - in_page);
    ASSIGN_OR_RETURN(const SegmentReplay* present, views_->StandAt(thread, moment, interrupt));
    if (!present->ReadHeld(at, out.subspan(done, size))) {
      std::unique_ptr<Page>& found = found_[PageOf(at)];
      if (found == nullptr) {
        auto bytes = std::make_unique<Page>();
        absl::Status status = ReadBefore(thread, present->segment().info().number, moment,
                                         PageOf(at), absl::MakeSpan(*bytes), interrupt);
        if (!status.ok()) {
          found_.erase(PageOf(at));
          if (absl::IsNotFound(status)) break;
          return status;
        }
        found = std::move(bytes);
      }
      std::memcpy(out.data() + done, found->data() + in_page, size);
      if (found_.size() > kMaxFound) found_.clear();
    }
    done += size;
  }
  if (done == 0 && !out.empty()) return NotKnown(address);
  return done;
}

absl::Status MemoryView::ReadBefore(int32_t thread, uint64_t number, uint64_t moment, uint64_t page,
                                    absl::Span<uint8_t> out, const std::atomic<bool>* interrupt) {
  if (!process_->MapsAt(moment).empty() && process_->RegionAt(moment, page) == nullptr) {
    return NotKnown(page);
  }
  absl::Status status = ReadThreads(thread, number, moment, page, out, interrupt);
  if (!absl::IsNotFound(status)) return status;
  const FullKeyframe* keyframe = process_->KeyframeAt(moment);
  if (keyframe != nullptr) {
    status = keyframe->ReadPage(page, out);
    if (!absl::IsNotFound(status)) return status;
  }
  // The first keyframe of a process made by another one holds no memory: that is the other's.
  const bool first = keyframe == nullptr || keyframe == process_->KeyframeAt(0);
  if (first && MappedSinceBirth(moment, page)) {
    status = views_->ReadBirth(page, out);
    if (!absl::IsNotFound(status)) return status;
  }
  return ReadModule(moment, page, out);
}

// The region has been there since the process was made, as far as the maps show.
bool MemoryView::MappedSinceBirth(uint64_t moment, uint64_t page) const {
  if (process_->LastExec(moment) != nullptr) return false;
  if (process_->MapsAt(0).empty()) return true;
  const MapRegion* then = process_->RegionAt(0, page);
  const MapRegion* now = process_->RegionAt(moment, page);
  return then != nullptr && now != nullptr && then->name == now->name &&
         then->inode == now->inode && then->shared == now->shared;
}

// The moment of the newest full keyframe at or before `moment`; 0 if there is none.
uint64_t MemoryView::KeyframeMoment(uint64_t moment) const {
  const std::vector<Snapshot>& snapshots = process_->snapshots();
  const auto behind = std::partition_point(
      snapshots.begin(), snapshots.end(),
      [moment](const Snapshot& snapshot) { return snapshot.moment <= moment; });
  return behind == snapshots.begin() ? 0 : std::prev(behind)->moment;
}

// The thread had ended before the full keyframe at `moment`: those that live begin a segment there.
bool MemoryView::HasEnded(int32_t thread, uint64_t moment) const {
  const uint64_t count = process_->schedule().CountAt(thread, moment);
  return count == process_->thread(thread).end_count() &&
         trace_->segments(thread).back().first_count < count;
}

absl::Status MemoryView::ReadThreads(int32_t thread, uint64_t number, uint64_t moment,
                                     uint64_t page, absl::Span<uint8_t> out,
                                     const std::atomic<bool>* interrupt) {
  std::vector<Knowledge> known;
  // What was known before a full keyframe, or a gap, no longer counts.
  const uint64_t keyframe = KeyframeMoment(moment);
  const uint64_t floor = std::max(keyframe, process_->LastGapBefore(moment));
  for (int32_t other : process_->all_threads()) {
    if (process_->StartOf(other) > moment) continue;
    if (Raised(interrupt)) return absl::CancelledError("interrupted");
    if (HasEnded(other, keyframe)) continue;
    std::optional<Knowledge> knowledge;
    uint64_t newest = number;
    if (other != thread) {
      newest = process_->thread(other).SegmentAt(process_->schedule().CountAt(other, moment));
      ASSIGN_OR_RETURN(knowledge, ReadPresent(other, moment, page, interrupt));
    }
    if (!knowledge.has_value()) {
      const uint64_t oldest =
          process_->thread(other).SegmentAt(process_->schedule().CountAt(other, floor));
      ASSIGN_OR_RETURN(knowledge, ReadEarlier(other, newest, oldest, page, interrupt));
    }
    if (knowledge.has_value()) known.push_back(*std::move(knowledge));
  }
  if (known.empty()) return NotKnown(page);
  return MergeNewest(known, moment, page, out, interrupt);
}

// What `thread` has of the page in the segment it stands in.
absl::StatusOr<std::optional<MemoryView::Knowledge>> MemoryView::ReadPresent(
    int32_t thread, uint64_t moment, uint64_t page, const std::atomic<bool>* interrupt) {
  const uint64_t count = process_->schedule().CountAt(thread, moment);
  const uint64_t number = process_->thread(thread).SegmentAt(count);
  ASSIGN_OR_RETURN(const std::vector<Touched>* touched, TouchedPages({thread, number}));
  auto it = std::partition_point(touched->begin(), touched->end(),
                                 [page](const Touched& entry) { return entry.page < page; });
  if (it == touched->end() || it->page != page || it->count > count) return std::nullopt;
  ASSIGN_OR_RETURN(const SegmentReplay* replay, views_->StandAt(thread, moment, interrupt));
  Knowledge knowledge{.thread = thread, .ended = std::nullopt, .bytes = {}};
  if (!replay->ReadHeld(page, absl::MakeSpan(knowledge.bytes))) return std::nullopt;
  return knowledge;
}

// What `thread` had of the page at the end of the newest segment before `number` that touched it.
absl::StatusOr<std::optional<MemoryView::Knowledge>> MemoryView::ReadEarlier(
    int32_t thread, uint64_t number, uint64_t oldest, uint64_t page,
    const std::atomic<bool>* interrupt) {
  while (number > oldest) {
    --number;
    const SegmentKey key = {thread, number};
    Knowledge knowledge{.thread = thread, .ended = number, .bytes = {}};
    if (auto it = remembered_.find({key, page}); it != remembered_.end()) {
      std::copy(it->second.begin(), it->second.end(), knowledge.bytes.begin());
      return knowledge;
    }
    ASSIGN_OR_RETURN(const std::vector<Touched>* touched, TouchedPages(key));
    auto entry = std::partition_point(touched->begin(), touched->end(),
                                      [page](const Touched& entry) { return entry.page < page; });
    if (entry == touched->end() || entry->page != page) continue;
    ASSIGN_OR_RETURN(const Ending* ending, EndingOf(key, interrupt));
    auto it = ending->offset.find(page);
    if (it == ending->offset.end()) continue;  // its import lies behind the segment's last state
    std::memcpy(knowledge.bytes.data(), ending->bytes.data() + it->second, kPageBytes);
    return knowledge;
  }
  return std::nullopt;
}

// No moment at which this was learned or written is later.
uint64_t MemoryView::NewestMoment(const Knowledge& knowledge, uint64_t moment) const {
  const int32_t thread = knowledge.thread;
  const Schedule& schedule = process_->schedule();
  if (knowledge.ended.has_value()) {
    const std::vector<SegmentInfo>& segments = trace_->segments(thread);
    const auto next = std::find_if(
        segments.begin(), segments.end(),
        [&](const SegmentInfo& segment) { return segment.number == *knowledge.ended + 1; });
    if (next == segments.end()) return moment;
    return std::min(moment, schedule.MomentFrom(thread, next->first_count));
  }
  const uint64_t count = schedule.CountAt(thread, moment);
  const size_t turn = schedule.NextSliceOf(thread, moment);
  const bool waits = turn < schedule.slices().size() && schedule.slices()[turn].count == count;
  return waits ? std::min(moment, schedule.MomentTo(thread, count)) : moment;
}

// Of each line that threads know differently, takes what was learned or written last. Those who ran
// last are asked first: mostly it is theirs, and of the others it need only be known that they have
// not written since.
absl::Status MemoryView::MergeNewest(const std::vector<Knowledge>& known, uint64_t moment,
                                     uint64_t page, absl::Span<uint8_t> out,
                                     const std::atomic<bool>* interrupt) {
  std::memcpy(out.data(), known.front().bytes.data(), kPageBytes);
  uint64_t lines = 0;
  for (uint64_t line = 0; line < kLinesPerPage; ++line) {
    const uint8_t* const first = known.front().bytes.data() + line * kLineBytes;
    const bool same = std::all_of(known.begin(), known.end(), [&](const Knowledge& other) {
      return std::memcmp(other.bytes.data() + line * kLineBytes, first, kLineBytes) == 0;
    });
    if (!same) lines |= uint64_t{1} << line;
  }
  if (lines == 0) return absl::OkStatus();
  std::vector<std::pair<uint64_t, const Knowledge*>> candidates;
  for (const Knowledge& candidate : known) {
    candidates.emplace_back(NewestMoment(candidate, moment), &candidate);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::array<std::optional<uint64_t>, kLinesPerPage> newest;
  for (const auto& [latest, candidate] : candidates) {
    uint64_t open = 0;
    uint64_t since = moment;
    for (uint64_t line = 0; line < kLinesPerPage; ++line) {
      const bool differs = (lines >> line & 1) != 0;
      if (!differs || (newest[line].has_value() && *newest[line] >= latest)) continue;
      open |= uint64_t{1} << line;
      since = std::min(since, newest[line].value_or(0));
    }
    if (open == 0) continue;
    ASSIGN_OR_RETURN(const LineMoments learned,
                     views_->LastKnown(candidate->thread, candidate->ended, moment, page, open,
                                       since, interrupt));
    for (uint64_t line = 0; line < kLinesPerPage; ++line) {
      if ((open >> line & 1) == 0) continue;
      if (newest[line].has_value() && learned[line] <= *newest[line]) continue;
      newest[line] = learned[line];
      std::memcpy(out.data() + line * kLineBytes, candidate->bytes.data() + line * kLineBytes,
                  kLineBytes);
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryView::ReadModule(uint64_t moment, uint64_t page, absl::Span<uint8_t> out) {
  const MapRegion* region = process_->RegionAt(moment, page);
  if (region == nullptr || region->module < 0 || page < region->start) return NotKnown(page);
  auto bytes = trace_->ModuleBytes(region->module);
  if (!bytes.ok()) return NotKnown(page);
  const uint64_t offset = region->file_offset + (page - region->start);
  // A page wholly behind the end of the file faults in the program, too.
  if (offset >= bytes->size()) return NotKnown(page);
  const absl::Span<const uint8_t> part = bytes->subspan(offset, kPageBytes);
  std::fill(std::copy(part.begin(), part.end(), out.begin()), out.end(), 0);
  return absl::OkStatus();
}

absl::StatusOr<const std::vector<MemoryView::Touched>*> MemoryView::TouchedPages(
    const SegmentKey& key) {
  auto it = touched_.find(key);
  if (it != touched_.end()) return &it->second;
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                   trace_->LoadSegment(key.first, key.second));
  std::vector<Touched> pages;
  for (const Record& record : segment->records()) {
    if (const auto* page = std::get_if<PageImport>(&record.body)) {
      if (page->first) pages.push_back({page->address, record.count});
    } else if (const auto* line = std::get_if<LineImport>(&record.body)) {
      pages.push_back({PageOf(line->address), record.count});
    } else if (const auto* read = std::get_if<UncachedRead>(&record.body)) {
      pages.push_back({PageOf(read->address), record.count});
    }
  }
  std::stable_sort(pages.begin(), pages.end(),
                   [](const Touched& a, const Touched& b) { return a.page < b.page; });
  pages.erase(std::unique(pages.begin(), pages.end(),
                          [](const Touched& a, const Touched& b) { return a.page == b.page; }),
              pages.end());
  pages.shrink_to_fit();
  // Node pointers would not survive a rehash, but nothing keeps them across calls.
  return &touched_.emplace(key, std::move(pages)).first->second;
}

absl::StatusOr<bool> MemoryView::Touches(int32_t thread, uint64_t number, uint64_t address,
                                         uint64_t length) {
  if (length == 0) return false;
  ASSIGN_OR_RETURN(const std::vector<Touched>* touched, TouchedPages({thread, number}));
  auto it = std::partition_point(
      touched->begin(), touched->end(),
      [first = PageOf(address)](const Touched& entry) { return entry.page < first; });
  return it != touched->end() && it->page <= address + (length - 1);
}

absl::StatusOr<const MemoryView::Ending*> MemoryView::EndingOf(const SegmentKey& key,
                                                               const std::atomic<bool>* interrupt) {
  for (auto it = endings_.begin(); it != endings_.end(); ++it) {
    if (it->key != key) continue;
    endings_.splice(endings_.begin(), endings_, it);
    return &endings_.front();
  }
  if (side_ == nullptr) {
    ASSIGN_OR_RETURN(side_, SegmentReplay::Create(trace_));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                   trace_->LoadSegment(key.first, key.second));
  RETURN_IF_ERROR(side_->Load(segment));
  RETURN_IF_ERROR(side_->AdvanceTo(segment->end_count(), interrupt));

  Ending ending;
  ending.key = key;
  ending.bytes.resize(side_->held_pages().size() * kPageBytes);
  size_t offset = 0;
  for (uint64_t page : side_->held_pages()) {
    if (!side_->ReadHeld(page, absl::MakeSpan(ending.bytes).subspan(offset, kPageBytes))) continue;
    ending.offset[page] = offset;
    offset += kPageBytes;
  }
  ending_bytes_ += ending.bytes.size();
  endings_.push_front(std::move(ending));
  while (ending_bytes_ > cache_bytes_ && endings_.size() > 1) {
    ending_bytes_ -= endings_.back().bytes.size();
    endings_.pop_back();
  }
  return &endings_.front();
}

void MemoryView::Remember(int32_t thread, uint64_t number, uint64_t page,
                          absl::Span<const uint8_t> bytes) {
  if (remembered_.size() >= kMaxRemembered) remembered_.clear();
  remembered_[{{thread, number}, page}].assign(bytes.begin(), bytes.end());
}

}  // namespace hindsight
