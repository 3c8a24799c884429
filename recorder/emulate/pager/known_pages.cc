#include "recorder/emulate/pager/known_pages.h"

#include <algorithm>
#include <cstring>

#include "emulator/cpu/cpu.h"

namespace hindsight {
namespace {

// A page first asked for is kept for this many resyncs; at most for kMaxGrant.
constexpr uint8_t kFirstGrant = 4;
constexpr uint8_t kMaxGrant = 64;

// Pages looked at for each one that is sampled.
constexpr size_t kSampleLooks = 8;

// Chunks without pages that are kept: Unicorn takes two milliseconds to forget one.
constexpr size_t kSpareChunks = 16;

uint64_t ChunkOf(uint64_t page) { return page & ~(View::kChunkBytes - 1); }

}  // namespace

bool Touches(const MemoryRange& range, uint64_t page) {
  return page < range.address + range.size && range.address < page + kPageBytes;
}

MemoryRange Clipped(const MemoryRange& range) {
  return {range.address, std::min(range.size, ~uint64_t{0} - range.address - kPageBytes)};
}

void PageGrant::Renew() {
  size = size == 0 ? kFirstGrant : std::min<int>(kMaxGrant, size * 2);
  left = size;
}

bool PageGrant::Use() {
  if (left == 0) return false;
  --left;
  return true;
}

PageStanding KnownPage::knowledge() const {
  if (!in_segment) return PageStanding::kNone;
  return left ? PageStanding::kLeft : PageStanding::kKnown;
}

void KnownPage::SavePristine() {
  if (pristine == nullptr) pristine = std::make_unique<std::array<uint8_t, kPageBytes>>();
  std::memcpy(pristine->data(), host, kPageBytes);
}

KnownPage* KnownPages::Find(uint64_t address) const {
  const auto it = pages_.find(address);
  return it == pages_.end() ? nullptr : it->second.get();
}

KnownPage* KnownPages::Add(uint64_t address) {
  std::unique_ptr<KnownPage>& page = pages_[address];
  if (page == nullptr) {
    page = std::make_unique<KnownPage>();
    page->address = address;
    page->in_segment = page->released = released_.erase(address) > 0;
    ++chunk_pages_[ChunkOf(address)];
  }
  return page.get();
}

void KnownPages::Erase(absl::Span<KnownPage* const> pages) {
  for (const KnownPage* page : pages) {
    const uint64_t address = page->address, chunk = ChunkOf(address);
    if (page->in_segment) released_.insert(address);
    if (--chunk_pages_[chunk] == 0) empty_chunks_.push_back(chunk);
    pages_.erase(address);
  }
}

std::vector<uint64_t> KnownPages::TakeEmptyChunks() {
  std::vector<uint64_t> empty;
  for (; empty_chunks_.size() > kSpareChunks; empty_chunks_.pop_front()) {
    const auto chunk = chunk_pages_.find(empty_chunks_.front());
    if (chunk == chunk_pages_.end() || chunk->second > 0) continue;  // in use again
    empty.push_back(chunk->first);
    chunk_pages_.erase(chunk);
  }
  return empty;
}

void KnownPages::Clear() {
  pages_.clear();
  chunk_pages_.clear();
  empty_chunks_.clear();
  released_.clear();
  in_use_.clear();
  watched_.clear();
}

void KnownPages::StartSegment() {
  for (const auto& [address, page] : pages_) {
    page->in_segment = page->left = page->released = false;
  }
  released_.clear();
}

void KnownPages::Unseal() {
  for (const auto& [address, page] : pages_) {
    if (!std::exchange(page->sealed, false) || !page->held) continue;
    in_use_.push_back(page.get());
    if (page->watched()) watched_.push_back(page.get());
  }
}

void KnownPages::Hold(KnownPage* page) {
  page->held = true;
  page->keep.Renew();
  if (page->shared) ++shared_held_;
  if (page->sealed) return;
  in_use_.push_back(page);
  if (page->watched()) watched_.push_back(page);
}

std::vector<uint64_t> KnownPages::LetGo(absl::Span<KnownPage* const> pages) {
  std::vector<uint64_t> addresses;
  addresses.reserve(pages.size());
  for (KnownPage* page : pages) {
    if (!page->held) continue;  // named twice
    addresses.push_back(page->address);
    page->held = page->dirty = false;
    page->pristine.reset();
    if (page->shared) --shared_held_;
  }
  auto gone = [](const KnownPage* page) { return !page->held; };
  std::erase_if(in_use_, gone);
  std::erase_if(watched_, gone);
  return addresses;
}

const std::vector<KnownPage*>& KnownPages::watched() {
  std::erase_if(watched_, [](const KnownPage* page) { return !page->watched(); });
  return watched_;
}

std::vector<KnownPage*> KnownPages::Within(absl::Span<const AddressSpace::Range> ranges) const {
  std::vector<KnownPage*> pages;
  uint64_t looks = 0;
  for (const AddressSpace::Range& range : ranges) {
    looks += std::min(pages_.size() + 1, (range.end - range.start) / kPageBytes);
  }
  if (looks <= pages_.size()) {
    for (const AddressSpace::Range& range : ranges) {
      for (uint64_t at = range.start; at < range.end; at += kPageBytes) {
        if (KnownPage* const page = Find(at); page != nullptr) pages.push_back(page);
      }
    }
    std::sort(pages.begin(), pages.end(),
              [](const KnownPage* a, const KnownPage* b) { return a->address < b->address; });
    pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
    return pages;
  }
  return All([&](const KnownPage& page) {
    return std::any_of(ranges.begin(), ranges.end(), [&](const AddressSpace::Range& range) {
      return range.start <= page.address && page.address < range.end;
    });
  });
}

uint64_t KnownPages::segment_pages() const {
  return std::count_if(pages_.begin(), pages_.end(),
                       [](const auto& page) { return page.second->in_segment; });
}

PageStanding KnownPages::KnowledgeOf(uint64_t address) const {
  const KnownPage* const page = Find(address);
  return page == nullptr ? PageStanding::kNone : page->knowledge();
}

bool KnownPages::ReadKnown(uint64_t address, absl::Span<uint8_t> out) const {
  while (!out.empty()) {
    const uint64_t offset = address % kPageBytes;
    const KnownPage* const page = Find(address - offset);
    if (page == nullptr || page->knowledge() != PageStanding::kKnown) return false;
    const size_t here = std::min<size_t>(out.size(), kPageBytes - offset);
    std::memcpy(out.data(), page->host + offset, here);
    out.remove_prefix(here);
    address += here;
  }
  return true;
}

std::vector<uint64_t> KnownPages::SomeWritten(size_t number) {
  std::vector<uint64_t> pages;
  const size_t looks = std::min(in_use_.size(), kSampleLooks * number);
  for (size_t i = 0; i < looks && pages.size() < number; ++i) {
    if (++next_sample_ >= in_use_.size()) next_sample_ = 0;
    if (in_use_[next_sample_]->written) pages.push_back(in_use_[next_sample_]->address);
  }
  return pages;
}

}  // namespace hindsight
