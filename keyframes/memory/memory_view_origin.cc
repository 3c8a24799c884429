// MemoryView: pages that no thread has touched, by their origin.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "keyframes/memory/memory_view.h"

namespace hindsight {
namespace {

// Of a page that was moved so often nothing more is looked up.
constexpr int kMaxMoves = 64;

}  // namespace

absl::Status MemoryView::PageNotKnown(uint64_t page) {
  return absl::NotFoundError(absl::StrFormat("memory at 0x%x is not in the recording here", page));
}

// What threads know of a page in the past, if they do not differ. (Which of them knew it last would
// have to be looked for with the replays that a search is using.)
absl::Status MemoryView::TakeAgreed(const std::vector<Knowledge>& known, uint64_t page,
                                    absl::Span<uint8_t> out) {
  const Page& first = known.front().bytes;
  const bool same = std::all_of(known.begin(), known.end(),
                                [&](const Knowledge& other) { return other.bytes == first; });
  if (!same) return PageNotKnown(page);
  std::copy(first.begin(), first.end(), out.begin());
  return absl::OkStatus();
}

// The page as it was where it was moved from, just before.
absl::Status MemoryView::ReadMoved(const MemoryOrigin& origin, const Question& question,
                                   absl::Span<uint8_t> out) {
  if (question.moves == kMaxMoves || origin.moment == 0) return PageNotKnown(question.page);
  const uint64_t moment = origin.moment - 1;
  const Schedule& schedule = process_->schedule();
  const int32_t thread = schedule.ThreadAt(moment);
  const absl::Status status =
      Find({.thread = thread,
            .number = process_->thread(thread).SegmentAt(schedule.CountAt(thread, moment)),
            .ask_own = true,
            .moment = moment,
            .page = origin.source,
            .searching = question.searching,
            .moves = question.moves + 1,
            .interrupt = question.interrupt},
           out);
  return absl::IsNotFound(status) ? PageNotKnown(question.page) : status;
}

absl::Status MemoryView::ReadOrigin(const MemoryOrigin& origin, const Question& question,
                                    absl::Span<uint8_t> out) {
  const uint64_t moment = question.moment, page = question.page;
  absl::Status status = PageNotKnown(page);
  switch (origin.kind) {
    case MemoryOrigin::Kind::kUnknown:
      break;
    case MemoryOrigin::Kind::kZeros:
      std::fill(out.begin(), out.end(), uint8_t{0});
      return absl::OkStatus();
    case MemoryOrigin::Kind::kFile:
      return ReadModule(moment, page, out);
    case MemoryOrigin::Kind::kBirth:
      return views_->ReadBirth(page, out);
    case MemoryOrigin::Kind::kMoved:
      return ReadMoved(origin, question, out);
    case MemoryOrigin::Kind::kKeyframe:
      status = origin.keyframe->ReadPage(page, out);
      if (!absl::IsNotFound(status) || !origin.else_zeros) break;
      std::fill(out.begin(), out.end(), uint8_t{0});
      return absl::OkStatus();
  }
  return status;
}

absl::Status MemoryView::ReadModule(uint64_t moment, uint64_t page, absl::Span<uint8_t> out) {
  const MapRegion* region = process_->maps().FindWithStackGrowth(moment, page);
  if (region == nullptr || region->module < 0 || page < region->start) return PageNotKnown(page);
  auto bytes = trace_->ModuleBytes(region->module);
  if (!bytes.ok()) return PageNotKnown(page);
  const uint64_t offset = region->file_offset + (page - region->start);
  // A page wholly beyond the end of the file faults in the program, too.
  if (offset >= bytes->size()) return PageNotKnown(page);
  const absl::Span<const uint8_t> part = bytes->subspan(offset, kPageBytes);
  std::fill(std::copy(part.begin(), part.end(), out.begin()), out.end(), 0);
  return absl::OkStatus();
}

}  // namespace hindsight
