#include "keyframes/memory_view.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// Watched pages remembered at segments' ends; beyond this they are found by replay again.
constexpr size_t kMaxRemembered = 4096;

absl::Status NotKnown(uint64_t page) {
  return absl::NotFoundError(absl::StrFormat("memory at 0x%x is not in the recording here", page));
}

uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

}  // namespace

absl::StatusOr<size_t> MemoryView::Read(const SegmentReplay& present, uint64_t address,
                                        absl::Span<uint8_t> out) {
  size_t done = 0;
  std::array<uint8_t, kPageBytes> bytes;
  while (done < out.size()) {
    const uint64_t at = address + done;
    if (at < address) break;  // past the end of the address space
    const uint64_t in_page = at % kPageBytes;
    const size_t size = std::min<size_t>(out.size() - done, kPageBytes - in_page);
    if (!present.ReadHeld(at, out.subspan(done, size))) {
      absl::Status status = ReadBefore(present.segment().info().number, present.count(), PageOf(at),
                                       absl::MakeSpan(bytes));
      if (absl::IsNotFound(status)) break;
      RETURN_IF_ERROR(status);
      std::memcpy(out.data() + done, bytes.data() + in_page, size);
    }
    done += size;
  }
  if (done == 0 && !out.empty()) return NotKnown(address);
  return done;
}

absl::Status MemoryView::ReadBefore(uint64_t number, uint64_t count, uint64_t page,
                                    absl::Span<uint8_t> out) {
  const uint64_t moment = count - process_->thread(thread_).begin_count();
  if (!process_->MapsAt(moment).empty() && process_->RegionAt(moment, page) == nullptr) {
    return NotKnown(page);
  }
  absl::Status status = ReadEarlierSegments(number, count, page, out);
  if (!absl::IsNotFound(status)) return status;
  if (const FullKeyframe* keyframe = process_->KeyframeAt(moment)) {
    status = keyframe->ReadPage(page, out);
    if (!absl::IsNotFound(status)) return status;
  }
  return ReadModule(moment, page, out);
}

absl::Status MemoryView::ReadEarlierSegments(uint64_t number, uint64_t count, uint64_t page,
                                             absl::Span<uint8_t> out) {
  const uint64_t first = trace_->segments(thread_).front().number;
  uint64_t oldest = first;
  for (const Snapshot& snapshot : process_->snapshots()) {
    if (snapshot.moment > count - process_->thread(thread_).begin_count()) continue;
    oldest = process_->thread(thread_).SegmentAt(snapshot.moment +
                                                 process_->thread(thread_).begin_count());
  }
  while (number > oldest) {
    --number;
    if (auto it = remembered_.find({number, page}); it != remembered_.end()) {
      std::copy(it->second.begin(), it->second.end(), out.begin());
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::vector<uint64_t>* touched, TouchedPages(number));
    if (!std::binary_search(touched->begin(), touched->end(), page)) continue;
    ASSIGN_OR_RETURN(const Ending* ending, EndingOf(number));
    auto it = ending->offset.find(page);
    if (it == ending->offset.end()) continue;  // its import lies behind the segment's last state
    std::memcpy(out.data(), ending->bytes.data() + it->second, kPageBytes);
    return absl::OkStatus();
  }
  return NotKnown(page);
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

absl::StatusOr<const std::vector<uint64_t>*> MemoryView::TouchedPages(uint64_t number) {
  auto it = touched_.find(number);
  if (it != touched_.end()) return &it->second;
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment, trace_->LoadSegment(thread_, number));
  std::vector<uint64_t> pages;
  for (const Record& record : segment->records()) {
    if (const auto* page = std::get_if<PageImport>(&record.body)) {
      if (page->first) pages.push_back(page->address);
    } else if (const auto* line = std::get_if<LineImport>(&record.body)) {
      pages.push_back(PageOf(line->address));
    } else if (const auto* read = std::get_if<UncachedRead>(&record.body)) {
      pages.push_back(PageOf(read->address));
    }
  }
  std::sort(pages.begin(), pages.end());
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  // Node pointers would not survive a rehash, but nothing keeps them across calls.
  return &touched_.emplace(number, std::move(pages)).first->second;
}

absl::StatusOr<const MemoryView::Ending*> MemoryView::EndingOf(uint64_t number) {
  for (auto it = endings_.begin(); it != endings_.end(); ++it) {
    if (it->number != number) continue;
    endings_.splice(endings_.begin(), endings_, it);
    return &endings_.front();
  }
  if (side_ == nullptr) {
    ASSIGN_OR_RETURN(side_, SegmentReplay::Create(trace_));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment, trace_->LoadSegment(thread_, number));
  RETURN_IF_ERROR(side_->Load(segment));
  RETURN_IF_ERROR(side_->AdvanceTo(segment->end_count()));

  Ending ending;
  ending.number = number;
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

void MemoryView::Remember(uint64_t number, uint64_t page, absl::Span<const uint8_t> bytes) {
  if (remembered_.size() >= kMaxRemembered) remembered_.clear();
  remembered_[{number, page}].assign(bytes.begin(), bytes.end());
}

}  // namespace hindsight
