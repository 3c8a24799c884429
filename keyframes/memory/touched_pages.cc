#include "keyframes/memory/touched_pages.h"

#include <algorithm>
#include <cstddef>
#include <variant>

namespace hindsight {
namespace {

struct Found {
  TouchedPage touched;
  bool whole = false;
};

bool IsWhole(const PageImport& import) {
  return import.first || import.module >= 0 || import.line_mask == ~uint64_t{0};
}

// Drops those that say of a part what the one before says of the page.
std::vector<TouchedPage> WithoutRepeated(const std::vector<Found>& found) {
  std::vector<TouchedPage> pages;
  for (const Found& next : found) {
    const bool repeats = !next.whole && !pages.empty() && pages.back().page == next.touched.page &&
                         pages.back().left == next.touched.left;
    if (!repeats) pages.push_back(next.touched);
  }
  pages.shrink_to_fit();
  return pages;
}

}  // namespace

TouchedPages::TouchedPages(const std::vector<Record>& records) {
  std::vector<Found> found;
  bool complete = false;
  for (const Record& record : records) {
    if (const auto* page = std::get_if<PageImport>(&record.body)) {
      found.push_back({{page->address, record.count}, IsWhole(*page)});
    } else if (const auto* line = std::get_if<LineImport>(&record.body)) {
      found.push_back({{PageOf(line->address), record.count}});
    } else if (const auto* read = std::get_if<UncachedRead>(&record.body)) {
      found.push_back({{PageOf(read->address), record.count}});
    } else if (const auto* left = std::get_if<PageLeft>(&record.body)) {
      found.push_back({{left->address, record.count, /*left=*/true}});
    } else if (const auto* effect = std::get_if<SideEffect>(&record.body)) {
      if (effect->kind == SideEffectKind::kSyscall) calls_.push_back(record.count);
    } else if (const auto* range = std::get_if<MappedRange>(&record.body)) {
      unlisted_.emplace_back(record.count, *range);
    } else if (const auto* used = std::get_if<UsedPages>(&record.body)) {
      complete |= used->complete;
    }
  }
  if (complete) unlisted_ = {};
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.touched.page < b.touched.page; });
  pages_ = WithoutRepeated(found);
}

const TouchedPage* TouchedPages::LastOf(uint64_t page, uint64_t count) const {
  auto it = std::partition_point(pages_.begin(), pages_.end(), [&](const TouchedPage& entry) {
    return entry.page < page || (entry.page == page && entry.count <= count);
  });
  if (it == pages_.begin() || std::prev(it)->page != page) return nullptr;
  return &*std::prev(it);
}

bool TouchedPages::CameInAgain(const TouchedPage& touched) const {
  if (&touched == pages_.data()) return false;
  const TouchedPage& before = *(&touched - 1);
  return before.page == touched.page && before.count == touched.count && !before.left;
}

bool TouchedPages::IsCall(uint64_t count) const {
  return std::binary_search(calls_.begin(), calls_.end(), count);
}

bool TouchedPages::ComesInAt(const std::vector<Record>& records, uint64_t page, uint64_t count) {
  auto it = std::partition_point(records.begin(), records.end(),
                                 [&](const Record& record) { return record.count < count; });
  for (; it != records.end() && it->count == count; ++it) {
    const auto* import = std::get_if<PageImport>(&it->body);
    const auto* line = std::get_if<LineImport>(&it->body);
    if (import != nullptr && import->address == page) return true;
    if (line != nullptr && PageOf(line->address) == page) return true;
  }
  return false;
}

bool TouchedPages::MayComeInUnlisted(uint64_t page, uint64_t from, uint64_t to) const {
  return std::any_of(unlisted_.begin(), unlisted_.end(), [&](const auto& entry) {
    const auto& [count, range] = entry;
    return from <= count && count <= to && range.address <= page &&
           page - range.address < range.bytes;
  });
}

}  // namespace hindsight
