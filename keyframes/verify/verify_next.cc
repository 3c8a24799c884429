#include "keyframes/verify/verify_next.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

using Page = std::array<uint8_t, kPageBytes>;

bool IsDirect(const Segment& segment) {
  return std::any_of(segment.records().begin(), segment.records().end(), [](const Record& record) {
    return std::holds_alternative<MappedRange>(record.body);
  });
}

// The pages of these ranges that the segment begins with.
std::map<uint64_t, const PageImport*> FirstPages(const Segment& segment) {
  std::vector<const MappedRange*> ranges;
  std::map<uint64_t, const PageImport*> pages;
  for (const Record& record : segment.records()) {
    if (record.count != segment.info().first_count) break;
    if (const auto* range = std::get_if<MappedRange>(&record.body)) ranges.push_back(range);
    const auto* page = std::get_if<PageImport>(&record.body);
    if (page != nullptr) pages[page->address] = page;
  }
  const auto is_elsewhere = [&](const auto& page) {
    return std::none_of(ranges.begin(), ranges.end(), [&](const MappedRange* range) {
      return page.first - range->address < range->bytes;
    });
  };
  std::erase_if(pages, is_elsewhere);
  return pages;
}

absl::StatusOr<Page> ContentsOf(const TraceReader& trace, const PageImport& import) {
  Page page = {};
  if (import.module >= 0) {
    ASSIGN_OR_RETURN(const absl::Span<const uint8_t> module, trace.ModuleBytes(import.module));
    if (import.module_offset < module.size()) {
      const auto part = module.subspan(import.module_offset, kPageBytes);
      std::memcpy(page.data(), part.data(), part.size());
    }
  }
  const uint8_t* line = import.lines.data();
  for (uint64_t i = 0; i < kPageBytes / kLineBytes; ++i) {
    if ((import.line_mask >> i & 1) == 0) continue;
    std::memcpy(page.data() + i * kLineBytes, line, kLineBytes);
    line += kLineBytes;
  }
  return page;
}

}  // namespace

absl::StatusOr<NextSegmentCheck> CompareWithNextSegment(const TraceReader& trace,
                                                        const SegmentReplay& replay) {
  NextSegmentCheck check;
  const SegmentInfo& info = replay.segment().info();
  const std::vector<SegmentInfo>& all = trace.segments(info.thread);
  const bool is_last = std::none_of(all.begin(), all.end(), [&](const SegmentInfo& other) {
    return other.number == info.number + 1;
  });
  if (is_last || !IsDirect(replay.segment())) return check;
  ASSIGN_OR_RETURN(const std::shared_ptr<const Segment> next,
                   trace.LoadSegment(info.thread, info.number + 1));
  // What a segment begins with may be missing where the recorder died.
  if (next->end_registers() == nullptr) return check;
  for (const auto& [address, import] : FirstPages(*next)) {
    Page held;
    if (!import->first || !replay.ReadHeld(address, absl::MakeSpan(held))) continue;
    ASSIGN_OR_RETURN(const Page page, ContentsOf(trace, *import));
    ++check.pages;
    const auto [at_page, at_held] = std::mismatch(page.begin(), page.end(), held.begin());
    if (at_page == page.end()) continue;
    check.difference = absl::StrFormat(
        "the next segment begins with byte 0x%02x at address 0x%x, where this one ends with 0x%02x",
        *at_page, address + (at_page - page.begin()), *at_held);
    return check;
  }
  return check;
}

}  // namespace hindsight
