#include "emulator/view.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>

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

// By how much the runs of equal elements become more or fewer.
int64_t RunsAdded(const std::vector<PageRights>& granted, uint64_t first, uint64_t count,
                  PageRights rights) {
  int64_t before = 0, after = 0;
  if (first > 0) {
    before += granted[first - 1] != granted[first];
    after += granted[first - 1] != rights;
  }
  for (uint64_t i = first + 1; i < first + count; ++i) before += granted[i - 1] != granted[i];
  if (first + count < granted.size()) {
    before += granted[first + count - 1] != granted[first + count];
    after += granted[first + count] != rights;
  }
  return after - before;
}

}  // namespace

int64_t View::HostMappings() { return host_mappings; }
void View::LimitHostMappings(int64_t limit) { host_mappings_limit = limit; }

View::~View() {
  for (const auto& chunk : chunks_) Unmap(*chunk);
}

void View::Unmap(const Chunk& chunk) {
  host_mappings -= chunk.runs + 1;
  munmap(chunk.guest, kChunkBytes);
  munmap(chunk.host, kChunkBytes);
}

View::Chunk* View::FindSlow(uint64_t base) const {
  for (const auto& chunk : chunks_) {
    if (chunk->base == base) return found_[Slot(base)] = chunk.get();
  }
  return nullptr;
}

View::Chunk* View::FindOrCreate(uint64_t address) {
  if (Chunk* chunk = Find(address)) return chunk;
  if (address >= kAddressLimit) return nullptr;
  // Of no file: those are as large as RLIMIT_FSIZE allows, which is the program's to set.
  void* host = mmap(nullptr, kChunkBytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (host == MAP_FAILED) return nullptr;
  // From size 0: the same memory at another place as well.
  void* guest = mremap(host, 0, kChunkBytes, MREMAP_MAYMOVE);
  if (guest == MAP_FAILED || mprotect(guest, kChunkBytes, PROT_NONE) != 0) {
    if (guest != MAP_FAILED) munmap(guest, kChunkBytes);
    munmap(host, kChunkBytes);
    return nullptr;
  }
  auto chunk = std::make_unique<Chunk>();
  chunk->base = address & ~(kChunkBytes - 1);
  chunk->guest = static_cast<uint8_t*>(guest);
  chunk->host = static_cast<uint8_t*>(host);
  chunk->rights.resize(kPagesPerChunk, PageRights::kNone);
  chunk->granted.resize(kPagesPerChunk, PageRights::kNone);
  chunk->code.resize(kPagesPerChunk, false);
  host_mappings += chunk->runs + 1;
  chunks_.push_back(std::move(chunk));
  return found_[Slot(address)] = chunks_.back().get();
}

bool View::GuestAddress(const void* pointer, uint64_t* address) const {
  auto p = static_cast<const uint8_t*>(pointer);
  for (const auto& chunk : chunks_) {
    if (p >= chunk->guest && p < chunk->guest + kChunkBytes) {
      *address = chunk->base + static_cast<uint64_t>(p - chunk->guest);
      return true;
    }
  }
  return false;
}

uint8_t* View::HostPage(uint64_t page) {
  Chunk* chunk = FindOrCreate(page);
  return chunk == nullptr ? nullptr : chunk->host + (page - chunk->base);
}

PageRights View::rights(uint64_t page) const {
  const Chunk* chunk = Find(page);
  return chunk == nullptr ? PageRights::kNone : chunk->rights[PageIndex(*chunk, page)];
}

PageRights View::Allowed(const Chunk& chunk, uint64_t index) const {
  PageRights rights = chunk.rights[index];
  return chunk.code[index] ? std::min(rights, PageRights::kRead) : rights;
}

bool View::Protect(Chunk& chunk, uint64_t first, uint64_t count, PageRights rights) {
  if (mprotect(chunk.guest + first * kPageBytes, count * kPageBytes, Protection(rights)) != 0) {
    return false;
  }
  const int64_t added = RunsAdded(chunk.granted, first, count, rights);
  chunk.runs += added;
  host_mappings += added;
  std::fill_n(chunk.granted.begin() + static_cast<ptrdiff_t>(first), count, rights);
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
  chunk->rights[index] = rights;
  PageRights allowed = Allowed(*chunk, index);
  if (chunk->granted[index] != allowed) Grant(*chunk, index, 1, allowed);
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
      PageRights& rights = chunk->rights[PageIndex(*chunk, sorted[i])];
      rights = std::min(rights, to);
      last = PageIndex(*chunk, sorted[i]);
      if (++i == sorted.size() || sorted[i] >= chunk->base + kChunkBytes) break;
      // One system call may span pages in between that have just these rights already.
      uint64_t next = PageIndex(*chunk, sorted[i]);
      if (next - last > kPagesPerChunk / 16 ||
          !std::all_of(chunk->granted.begin() + static_cast<ptrdiff_t>(last) + 1,
                       chunk->granted.begin() + static_cast<ptrdiff_t>(next),
                       [to](PageRights granted) { return granted == to; })) {
        break;
      }
    }
    // Pages of the run with less rights than `to` must keep less.
    bool uniform = true;
    for (uint64_t k = first; k <= last; ++k) {
      if (chunk->granted[k] < to) uniform = false;
    }
    if (uniform) {
      Grant(*chunk, first, last - first + 1, to);
    } else {
      for (uint64_t k = first; k <= last; ++k) {
        if (chunk->granted[k] > to) Grant(*chunk, k, 1, to);
      }
    }
  }
}

void View::ProtectWrites(absl::Span<const uint64_t> pages) {
  LowerRights(pages, PageRights::kRead);
}

void View::DropRights(absl::Span<const uint64_t> pages) { LowerRights(pages, PageRights::kNone); }

void View::DropAllRights() {
  for (const auto& chunk : chunks_) {
    std::fill(chunk->rights.begin(), chunk->rights.end(), PageRights::kNone);
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
  const auto it = std::find_if(chunks_.begin(), chunks_.end(),
                               [base](const auto& chunk) { return chunk->base == base; });
  if (it == chunks_.end()) return;
  found_[Slot(base)] = nullptr;
  Unmap(**it);
  chunks_.erase(it);
}

bool View::is_code(uint64_t page) const {
  const Chunk* chunk = Find(page);
  return chunk != nullptr && chunk->code[PageIndex(*chunk, page)];
}

void View::SetCode(uint64_t page, bool code) {
  Chunk* chunk = Find(page);
  if (chunk == nullptr) return;
  uint64_t index = PageIndex(*chunk, page);
  chunk->code[index] = code;
  if (code && chunk->granted[index] == PageRights::kReadWrite) {
    Grant(*chunk, index, 1, PageRights::kRead);
  }
}

void View::Regrant(uint64_t page) {
  Chunk* chunk = Find(page);
  if (chunk == nullptr) return;
  uint64_t index = PageIndex(*chunk, page);
  PageRights allowed = Allowed(*chunk, index);
  if (chunk->granted[index] != allowed) Grant(*chunk, index, 1, allowed);
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
    if (chunk == nullptr || chunk->rights[PageIndex(*chunk, at)] == PageRights::kNone) return false;
    size_t here = std::min<size_t>(out.size() - done, kPageBytes - at % kPageBytes);
    std::memcpy(out.data() + done, chunk->host + (at - chunk->base), here);
    done += here;
  }
  return true;
}

}  // namespace hindsight
