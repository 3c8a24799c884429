#include "recorder/translate/memo/guest_places.h"

#include <algorithm>
#include <iterator>

namespace hindsight {
namespace {

std::optional<GuestPlace> PlaceIn(const Translation& translation, uint64_t host) {
  const StoredBlock& block = translation.block;
  const uint64_t offset = host - translation.host;
  if (offset >= block.code.size()) return std::nullopt;  // a stub, or an exit
  auto entry = std::upper_bound(block.side.begin(), block.side.end(), offset,
                                [](uint64_t o, const SideEntry& e) { return o < e.host_offset; });
  if (entry == block.side.begin()) return std::nullopt;
  --entry;
  return GuestPlace{translation.guest_pc + entry->guest_offset, entry->adjust, entry->saved};
}

// The last one that does not begin after `host`; null: none does.
template <typename T>
const std::pair<const uint64_t, const T*>* LastBefore(const absl::btree_map<uint64_t, const T*>& in,
                                                      uint64_t host) {
  const auto next = in.upper_bound(host);
  return next == in.begin() ? nullptr : &*std::prev(next);
}

}  // namespace

void GuestPlaces::Add(const Translation* block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_[block->host] = block;
}

void GuestPlaces::Add(const PageImage* page, uint64_t host) {
  const std::lock_guard<std::mutex> lock(mutex_);
  pages_[host] = page;
}

std::optional<GuestPlace> GuestPlaces::At(uint64_t host) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto* page = LastBefore(pages_, host)) {
    const PageImage& image = *page->second;
    const uint64_t offset = host - page->first;
    const PageImage::Block* const block = offset < image.code_bytes() ? image.At(offset) : nullptr;
    if (block != nullptr) {
      const std::optional<Translation> translation = image.Get(*block, page->first);
      return translation.has_value() ? PlaceIn(*translation, host) : std::nullopt;
    }
  }
  const auto* const block = LastBefore(blocks_, host);
  return block == nullptr ? std::nullopt : PlaceIn(*block->second, host);
}

}  // namespace hindsight
