#include "emulator/view/view.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

namespace hindsight {
namespace {

int Protection(PageRights rights) {
  switch (rights) {
    case PageRights::kNone:
      return PROT_NONE;
    case PageRights::kRead:
      return PROT_READ;
    case PageRights::kReadWrite:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

uint64_t PageIndex(const View::Chunk& chunk, uint64_t address) {
  return (address - chunk.base) / kPageBytes;
}

// Without the kernel's file: its default.
int64_t KernelsLimit() {
  int64_t limit = 65'530;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  return limit;
}

// Two per chunk, one for each of its mappings, and one for each further run. The limit is the
// process's, so this cannot be a View's.
std::atomic<int64_t> host_mappings{0};
// A quarter is left to everybody else: threads' stacks, libraries, Unicorn's buffers, malloc.
std::atomic<int64_t> host_mappings_limit{KernelsLimit() / 4 * 3};
// A chunk with fewer runs than this gives too little when taken back.
constexpr int64_t kWorthTakingBack = 32;

// From so many regions on new ones are windows, of so many bytes, as long as all Views together do
// not reserve more than this of the host's 128 TiB of addresses.
constexpr size_t kManyRegions = 48;
constexpr uint64_t kWindowBytes = uint64_t{64} << 30;
constexpr int64_t kMaxReservedBytes = int64_t{32} << 40;
std::atomic<int64_t> reserved_bytes{0};

// Addresses that nothing lies at: to be mapped over.
uint8_t* Reserve(void* where, uint64_t bytes) {
  const int fixed = where == nullptr ? 0 : MAP_FIXED;
  void* const at =
      mmap(where, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at);
}

}  // namespace

int64_t View::HostMappings() { return host_mappings; }
void View::LimitHostMappings(int64_t limit) { host_mappings_limit = limit; }

View::~View() {
  for (const auto& [base, chunk] : chunks_) Unmap(*chunk);
  for (const auto& [base, region] : regions_) {
    if (region.bytes == kChunkBytes) continue;  // unmapped with its chunk
    munmap(region.guest, region.bytes);
    reserved_bytes -= static_cast<int64_t>(region.bytes);
    --host_mappings;
  }
}

// What is in a window leaves addresses reserved.
void View::Unmap(const Chunk& chunk) {
  const bool in_window = RegionOf(chunk.base)->bytes != kChunkBytes;
  host_mappings -= chunk.runs + 1 + in_window;
  if (!in_window || Reserve(chunk.guest, kChunkBytes) == nullptr) munmap(chunk.guest, kChunkBytes);
  munmap(chunk.host, kChunkBytes);
}

View::Chunk* View::FindSlow(uint64_t base) const {
  const auto found = chunks_.find(base);
  return found == chunks_.end() ? nullptr : found_[Slot(base)] = found->second.get();
}

const View::Region* View::RegionOf(uint64_t address) const {
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return nullptr;
  const Region& region = std::prev(after)->second;
  return address - region.base < region.bytes ? &region : nullptr;
}

bool View::Occupied(uint64_t base, uint64_t bytes) const {
  const auto next = regions_.lower_bound(base);
  return RegionOf(base) != nullptr || (next != regions_.end() && next->first < base + bytes);
}

// One for the chunk, which no region has yet. nullptr if the host has no addresses left.
const View::Region* View::MakeRegion(uint64_t chunk) {
  Region region = {.base = chunk, .bytes = kChunkBytes};
  if (regions_.size() >= kManyRegions &&
      reserved_bytes + static_cast<int64_t>(kWindowBytes) <= kMaxReservedBytes) {
    // The largest that leaves out all others.
    for (uint64_t bytes = kWindowBytes; bytes > kChunkBytes; bytes /= 2) {
      if (Occupied(chunk & ~(bytes - 1), bytes)) continue;
      region = {.base = chunk & ~(bytes - 1), .bytes = bytes};
      break;
    }
  }
  region.guest = Reserve(nullptr, region.bytes);
  if (region.guest == nullptr) return nullptr;
  if (region.bytes != kChunkBytes) {
    reserved_bytes += static_cast<int64_t>(region.bytes);
    ++host_mappings;
  }
  by_pointer_[region.guest] = region.base;
  return &(regions_[region.base] = region);
}

bool View::MapChunk(const Region& region, Chunk* chunk) {
  // Of no file: those are as large as RLIMIT_FSIZE allows, which is the program's to set.
  void* const host = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (host == MAP_FAILED) return false;
  uint8_t* const place = region.guest + (chunk->base - region.base);
  // From size 0: the same memory at another place as well.
  void* const guest = mremap(host, 0, kChunkBytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
  if (guest == MAP_FAILED || mprotect(guest, kChunkBytes, PROT_NONE) != 0) {
    Reserve(place, kChunkBytes);
    munmap(host, kChunkBytes);
    return false;
  }
  chunk->host = static_cast<uint8_t*>(host);
  chunk->guest = static_cast<uint8_t*>(guest);
  host_mappings += chunk->runs + 1 + (region.bytes != kChunkBytes);
  return true;
}

View::Chunk* View::FindOrCreate(uint64_t address) {
  if (Chunk* chunk = Find(address)) return chunk;
  if (address >= kAddressLimit) return nullptr;
  auto chunk = std::make_unique<Chunk>();
  chunk->base = address & ~(kChunkBytes - 1);
  const Region* region = RegionOf(address);
  if (region == nullptr) region = MakeRegion(chunk->base);
  if (region == nullptr) return nullptr;
  if (!MapChunk(*region, chunk.get())) {
    if (region->bytes == kChunkBytes) {
      munmap(region->guest, kChunkBytes);
      by_pointer_.erase(region->guest);
      regions_.erase(chunk->base);
    }
    return nullptr;
  }
  Chunk* const made = chunk.get();
  chunks_[made->base] = std::move(chunk);
  return found_[Slot(address)] = made;
}

bool View::GuestAddress(const void* pointer, uint64_t* address) const {
  const auto* const p = static_cast<const uint8_t*>(pointer);
  const auto after = by_pointer_.upper_bound(p);
  if (after == by_pointer_.begin()) return false;
  const auto& [guest, base] = *std::prev(after);
  const auto offset = static_cast<uint64_t>(p - guest);
  if (offset >= regions_.find(base)->second.bytes) return false;
  *address = base + offset;
  return true;
}

uint8_t* View::HostPage(uint64_t page) {
  Chunk* chunk = FindOrCreate(page);
  return chunk == nullptr ? nullptr : chunk->host + (page - chunk->base);
}

PageRights View::rights(uint64_t page) const {
  const Chunk* chunk = Find(page);
  return chunk == nullptr ? PageRights::kNone : chunk->pages.rights(PageIndex(*chunk, page));
}

PageRights View::Allowed(const Chunk& chunk, uint64_t index) const {
  const PageRights rights = chunk.pages.rights(index);
  return chunk.pages.code(index) ? std::min(rights, PageRights::kRead) : rights;
}

bool View::Protect(Chunk& chunk, uint64_t first, uint64_t count, PageRights rights) {
  if (mprotect(chunk.guest + first * kPageBytes, count * kPageBytes, Protection(rights)) != 0) {
    return false;
  }
  const int64_t added = chunk.pages.SetGranted(first, count, rights);
  chunk.runs += added;
  host_mappings += added;
  return true;
}

// Makes the chunk one mapping again, and lets accesses fault it back in.
void View::TakeBack(Chunk& chunk) { Protect(chunk, 0, kPagesPerChunk, PageRights::kNone); }

void View::Grant(Chunk& chunk, uint64_t first, uint64_t count, PageRights rights) {
  if (host_mappings >= host_mappings_limit && chunk.runs >= kWorthTakingBack) TakeBack(chunk);
  if (Protect(chunk, first, count, rights)) return;
  TakeBack(chunk);
  Protect(chunk, first, count, rights);
}

void View::SetRights(uint64_t page, PageRights rights) {
  Chunk* chunk = FindOrCreate(page);
  if (chunk == nullptr) return;
  uint64_t index = PageIndex(*chunk, page);
  chunk->pages.set_rights(index, rights);
  PageRights allowed = Allowed(*chunk, index);
  if (chunk->pages.granted(index) != allowed) Grant(*chunk, index, 1, allowed);
}

void View::LowerRights(absl::Span<const uint64_t> pages, PageRights to) {
  std::vector<uint64_t> sorted(pages.begin(), pages.end());
  std::sort(sorted.begin(), sorted.end());
  size_t i = 0;
  while (i < sorted.size()) {
    Chunk* chunk = Find(sorted[i]);
    if (chunk == nullptr) {
      ++i;
      continue;
    }
    uint64_t first = PageIndex(*chunk, sorted[i]);
    uint64_t last = first;
    for (;;) {
      last = PageIndex(*chunk, sorted[i]);
      chunk->pages.set_rights(last, std::min(chunk->pages.rights(last), to));
      if (++i == sorted.size() || sorted[i] >= chunk->base + kChunkBytes) break;
      // One system call may span pages in between that have just these rights already.
      uint64_t next = PageIndex(*chunk, sorted[i]);
      if (next - last > kPagesPerChunk / 16 || !chunk->pages.AreGranted(last + 1, next, to)) {
        break;
      }
    }
    // Pages of the run with less rights than `to` must keep less.
    bool uniform = true;
    for (uint64_t k = first; k <= last; ++k) {
      if (chunk->pages.granted(k) < to) uniform = false;
    }
    if (uniform) {
      Grant(*chunk, first, last - first + 1, to);
    } else {
      for (uint64_t k = first; k <= last; ++k) {
        if (chunk->pages.granted(k) > to) Grant(*chunk, k, 1, to);
      }
    }
  }
}

void View::ProtectWrites(absl::Span<const uint64_t> pages) {
  LowerRights(pages, PageRights::kRead);
}

void View::DropRights(absl::Span<const uint64_t> pages) { LowerRights(pages, PageRights::kNone); }

void View::DropAllRights() {
  for (const auto& [base, chunk] : chunks_) {
    chunk->pages.DropAllRights();
    Grant(*chunk, 0, kPagesPerChunk, PageRights::kNone);
  }
}

void View::Release(absl::Span<const uint64_t> pages) {
  DropRights(pages);
  std::vector<uint64_t> sorted(pages.begin(), pages.end());
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size();) {
    const size_t first = i++;
    const Chunk* chunk = Find(sorted[first]);
    while (i < sorted.size() && sorted[i] == sorted[i - 1] + kPageBytes &&
           sorted[i] % kChunkBytes != 0) {
      ++i;
    }
    if (chunk == nullptr) continue;
    madvise(chunk->host + (sorted[first] - chunk->base), (i - first) * kPageBytes, MADV_REMOVE);
  }
}

void View::RemoveChunk(uint64_t base) {
  const auto it = chunks_.find(base);
  if (it == chunks_.end()) return;
  found_[Slot(base)] = nullptr;
  Unmap(*it->second);
  if (const Region* region = RegionOf(base); region->bytes == kChunkBytes) {
    by_pointer_.erase(region->guest);
    regions_.erase(base);
  }
  chunks_.erase(it);
}

bool View::is_code(uint64_t page) const {
  const Chunk* chunk = Find(page);
  return chunk != nullptr && chunk->pages.code(PageIndex(*chunk, page));
}

void View::SetCode(uint64_t page, bool code) {
  Chunk* chunk = Find(page);
  if (chunk == nullptr) return;
  uint64_t index = PageIndex(*chunk, page);
  chunk->pages.set_code(index, code);
  if (code && chunk->pages.granted(index) == PageRights::kReadWrite) {
    Grant(*chunk, index, 1, PageRights::kRead);
  }
}

void View::Regrant(uint64_t page) {
  Chunk* chunk = Find(page);
  if (chunk == nullptr) return;
  uint64_t index = PageIndex(*chunk, page);
  PageRights allowed = Allowed(*chunk, index);
  if (chunk->pages.granted(index) != allowed) Grant(*chunk, index, 1, allowed);
}

void View::Poison(uint64_t page) {
  Chunk* chunk = FindOrCreate(page);
  if (chunk != nullptr) Grant(*chunk, PageIndex(*chunk, page), 1, PageRights::kReadWrite);
}

bool View::ReadHeld(uint64_t address, absl::Span<uint8_t> out) const {
  size_t done = 0;
  while (done < out.size()) {
    uint64_t at = address + done;
    const Chunk* chunk = Find(at);
    if (chunk == nullptr || chunk->pages.rights(PageIndex(*chunk, at)) == PageRights::kNone)
      return false;
    size_t here = std::min<size_t>(out.size() - done, kPageBytes - at % kPageBytes);
    std::memcpy(out.data() + done, chunk->host + (at - chunk->base), here);
    done += here;
  }
  return true;
}

}  // namespace hindsight
