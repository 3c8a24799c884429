#include "recorder/translate/memo/seen_code.h"

#include <algorithm>

namespace hindsight {

bool SeenCode::Add(const Translation& translation) {
  if (!ForAll(translation, &SeenCode::Agree)) return false;
  return ForAll(translation, &SeenCode::Set);
}

// `visit` gets bytes of one page at a time.
bool SeenCode::ForAll(const Translation& translation, Visit visit) {
  const auto each = [&](uint64_t pc, absl::Span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const absl::Span<const uint8_t> part = bytes.subspan(0, kPageBytes - pc % kPageBytes);
      if (!(this->*visit)(pc, part)) return false;
      pc += part.size();
      bytes.remove_prefix(part.size());
    }
    return true;
  };
  if (!each(translation.guest_pc, translation.bytes)) return false;
  absl::Span<const uint8_t> left = translation.relied_on;
  for (const CodeRange& range : translation.block.relied_on) {
    if (!each(range.pc, left.first(range.bytes))) return false;
    left.remove_prefix(range.bytes);
  }
  return true;
}

SeenCode::Page* SeenCode::PageAt(uint64_t pc) {
  std::unique_ptr<Page>& page = pages_[pc / kPageBytes];
  if (page == nullptr) page = std::make_unique<Page>();
  return page.get();
}

bool SeenCode::Agree(uint64_t pc, absl::Span<const uint8_t> bytes) {
  const Page& page = *PageAt(pc);
  const uint64_t first = pc % kPageBytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (page.seen[first + i] && page.bytes[first + i] != bytes[i]) return false;
  }
  return true;
}

bool SeenCode::Set(uint64_t pc, absl::Span<const uint8_t> bytes) {
  Page* const page = PageAt(pc);
  std::copy(bytes.begin(), bytes.end(), page->bytes.begin() + pc % kPageBytes);
  std::fill_n(page->seen.begin() + pc % kPageBytes, bytes.size(), true);
  return true;
}

void SeenCode::Take(std::vector<CodeRange>* ranges, std::vector<uint8_t>* bytes) const {
  for (const auto& [number, page] : pages_) {
    for (uint64_t at = 0; at < kPageBytes; ++at) {
      if (!page->seen[at]) continue;
      const uint64_t pc = number * kPageBytes + at;
      if (at == 0 || !page->seen[at - 1]) ranges->push_back({pc, 0});
      ++ranges->back().bytes;
      bytes->push_back(page->bytes[at]);
    }
  }
}

}  // namespace hindsight
