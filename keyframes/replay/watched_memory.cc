#include "keyframes/replay/watched_memory.h"

#include <algorithm>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

// The part of [a, a + a_size) that lies in [b, b + b_size), as offset into a; empty: size 0.
WatchedPart Intersect(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size) {
  const uint64_t first = std::max(a, b);
  const uint64_t last = std::min(a + (a_size - 1), b + (b_size - 1));
  if (a_size == 0 || b_size == 0 || first > last) return {};
  return {first - a, last - first + 1};
}

bool InMask(uint64_t line_mask, uint64_t offset_in_page) {
  return (line_mask >> (offset_in_page / kLineBytes) & 1) != 0;
}

}  // namespace

WatchedPart WatchedIn(uint64_t page, const Watchpoint& watchpoint) {
  return Intersect(page, kPageBytes, watchpoint.address, watchpoint.length);
}

std::optional<uint64_t> FirstNewByte(const WatchedImport& import, const Watchpoint& watchpoint,
                                     absl::string_view before) {
  const uint64_t offset = WatchedIn(import.page, watchpoint).offset;
  for (uint64_t i = 0; i < std::min(import.bytes.size(), before.size()); ++i) {
    if (!InMask(import.known_mask, offset + i) && import.bytes[i] != before[i]) return i;
  }
  return std::nullopt;
}

void WatchedMemory::Clear() {
  change_.reset();
  imports_.clear();
}

void WatchedMemory::NoteChange(uint64_t count, uint64_t address, const uint8_t* before,
                               absl::Span<const uint8_t> after, uint64_t known_mask) {
  if (change_.has_value()) return;
  for (size_t i = 0; i < watchpoints_.size(); ++i) {
    const Watchpoint& watch = watchpoints_[i];
    if (!watch.on_write) continue;
    const WatchedPart watched = Intersect(address, after.size(), watch.address, watch.length);
    for (uint64_t k = watched.offset; k < watched.offset + watched.size; ++k) {
      if (before[k] == after[k] || InMask(known_mask, (address + k) % kPageBytes)) continue;
      change_ = WatchHit{count - 1, i, address + k};
      return;
    }
  }
}

void WatchedMemory::NotePage(uint64_t count, uint64_t page, const uint8_t* contents,
                             uint64_t known_mask) {
  for (size_t i = 0; i < watchpoints_.size(); ++i) {
    const WatchedPart part = WatchedIn(page, watchpoints_[i]);
    if (!watchpoints_[i].on_write || part.size == 0) continue;
    const auto* bytes = reinterpret_cast<const char*>(contents) + part.offset;
    imports_.push_back({count, i, page, std::string(bytes, part.size), known_mask});
  }
}

}  // namespace hindsight
