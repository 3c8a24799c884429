#include "keyframes/replay/page_history.h"

#include <algorithm>
#include <variant>

namespace hindsight {
namespace {

// The page that `body` brings into the view, or brings up to date.
std::optional<uint64_t> ImportedPage(const RecordBody& body) {
  if (const auto* page = std::get_if<PageImport>(&body)) return page->address;
  if (const auto* line = std::get_if<LineImport>(&body)) return PageOf(line->address);
  if (const auto* read = std::get_if<UncachedRead>(&body)) return PageOf(read->address);
  return std::nullopt;
}

}  // namespace

PageHistory::PageHistory(absl::Span<const Record> records) {
  for (size_t i = 0; i < records.size(); ++i) {
    if (const auto* left = std::get_if<PageLeft>(&records[i].body)) {
      pages_[PageOf(left->address)].push_back({i, records[i].count, /*import=*/false});
    } else if (!pages_.empty()) {
      const std::optional<uint64_t> page = ImportedPage(records[i].body);
      if (!page.has_value()) continue;
      const auto it = pages_.find(*page);
      if (it != pages_.end()) it->second.push_back({i, records[i].count, /*import=*/true});
    }
  }
}

std::optional<uint64_t> PageHistory::LeftSince(uint64_t page, size_t records) const {
  const auto it = pages_.find(page);
  if (it == pages_.end()) return std::nullopt;
  auto next =
      std::partition_point(it->second.begin(), it->second.end(),
                           [records](const Event& event) { return event.record < records; });
  std::optional<uint64_t> since;
  for (; next != it->second.begin() && !std::prev(next)->import; --next) {
    since = std::prev(next)->count;
  }
  return since;
}

std::vector<PageHistory::Span> PageHistory::SpansOf(uint64_t page) const {
  std::vector<Span> spans;
  const auto it = pages_.find(page);
  if (it == pages_.end()) return spans;
  for (const Event& event : it->second) {
    const bool open = !spans.empty() && !spans.back().known.has_value();
    if (event.import) {
      if (open) spans.back().known = event.count;
    } else if (!open) {
      spans.push_back({.left = event.count, .known = std::nullopt});
    }
  }
  return spans;
}

}  // namespace hindsight
