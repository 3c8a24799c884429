#include "recorder/translate/code_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace hindsight {
namespace {

constexpr uint64_t kPageBytes = 4096;

uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

CodeCache::CodeCache(MemoryFile* file, uint64_t arena_bytes)
    : file_(file), arena_bytes_(arena_bytes) {
  CHECK(arena_bytes <= kArenaBytes);
  arenas_[0].start = kLibraryArena;
  arenas_[1].start = kPieArena;
  for (Arena& arena : arenas_) StartArena(&arena);
}

CodeCache::Arena& CodeCache::ArenaFor(uint64_t guest_pc) {
  return arenas_[kLibraryWindow.Has(guest_pc, guest_pc) ? 0 : 1];
}

const CodeCache::Arena& CodeCache::ArenaFor(uint64_t guest_pc) const {
  return const_cast<CodeCache*>(this)->ArenaFor(guest_pc);
}

void CodeCache::StartArena(Arena* arena) {
  const Stubs stubs = EmitStubs(arena->start);
  std::memcpy(file_->code(arena->start), stubs.code.data(), stubs.code.size());
  arena->stubs = stubs.addresses;
  arena->used = AlignUp(stubs.code.size(), kHostAlignment);
  arena->blocks.clear();
}

uint64_t CodeCache::PlaceFor(uint64_t guest_pc) const {
  const Arena& arena = ArenaFor(guest_pc);
  return arena.start + arena.used;
}

StubAddresses CodeCache::StubsFor(uint64_t guest_pc) const { return ArenaFor(guest_pc).stubs; }

bool CodeCache::HasRoom(uint64_t guest_pc, uint64_t bytes) const {
  return ArenaFor(guest_pc).used + bytes <= arena_bytes_ && map_entries_ < kBlockMapEntries / 2;
}

uint64_t CodeCache::Find(uint64_t guest_pc) const {
  const auto it = blocks_.find(guest_pc);
  return it == blocks_.end() ? 0 : it->second->host;
}

void CodeCache::WriteSite(const Site& site, int32_t displacement) {
  auto* word = reinterpret_cast<int32_t*>(file_->code(site.host));
  __atomic_store_n(word, displacement, __ATOMIC_RELEASE);
}

void CodeCache::SetInMap(uint64_t guest_pc, uint64_t host) {
  const absl::Span<BlockMapEntry> map = file_->block_map();
  uint64_t i = BlockMapIndex(guest_pc);
  while (map[i].guest_pc != 0 && map[i].guest_pc != guest_pc) i = (i + 1) % kBlockMapEntries;
  __atomic_store_n(&map[i].host, host, __ATOMIC_RELEASE);
  if (map[i].guest_pc == 0) ++map_entries_;
  __atomic_store_n(&map[i].guest_pc, guest_pc, __ATOMIC_RELEASE);
}

void CodeCache::RegisterPages(const std::shared_ptr<const Block>& block, uint64_t start,
                              uint64_t bytes) {
  const uint64_t last = start + std::max<uint64_t>(bytes, 1) - 1;
  for (uint64_t page = start / kPageBytes; page <= last / kPageBytes; ++page) {
    auto& blocks = pages_[page];
    if (blocks.empty() || blocks.back() != block) blocks.push_back(block);
  }
}

void CodeCache::Add(uint64_t guest_pc, TranslatedBlock translated) {
  Arena& arena = ArenaFor(guest_pc);
  auto block = std::make_shared<Block>();
  block->guest_pc = guest_pc;
  block->guest_bytes = translated.guest_bytes;
  block->host = arena.start + arena.used;
  block->side = std::move(translated.side);
  std::memcpy(file_->code(block->host), translated.code.data(), translated.code.size());
  arena.used = AlignUp(arena.used + translated.code.size(), kHostAlignment);
  arena.blocks.push_back(block);
  blocks_[guest_pc] = block;
  RegisterPages(block, guest_pc, translated.guest_bytes);
  for (const CodeRange& range : translated.relied_on) RegisterPages(block, range.pc, range.bytes);
  for (const Link& link : translated.links) {
    Site site = {.host = block->host + link.rel32_offset};
    std::memcpy(&site.to_exit, translated.code.data() + link.rel32_offset, sizeof(site.to_exit));
    sites_[link.guest_target].push_back(site);
    const uint64_t target = Find(link.guest_target);
    if (target != 0) WriteSite(site, static_cast<int32_t>(target - site.host - 4));
  }
  if (const auto it = sites_.find(guest_pc); it != sites_.end()) {
    for (const Site& site : it->second) {
      WriteSite(site, static_cast<int32_t>(block->host - site.host - 4));
    }
  }
  if (guest_pc != 0) SetInMap(guest_pc, block->host);
}

void CodeCache::Unlink(const Block& block) {
  if (const auto it = sites_.find(block.guest_pc); it != sites_.end()) {
    for (const Site& site : it->second) WriteSite(site, site.to_exit);
  }
  if (block.guest_pc != 0) SetInMap(block.guest_pc, 0);
  blocks_.erase(block.guest_pc);
}

bool CodeCache::Invalidate(uint64_t start, uint64_t end) {
  std::vector<uint64_t> touched;
  const uint64_t first = start / kPageBytes, last = (end + kPageBytes - 1) / kPageBytes;
  if (last - first < pages_.size()) {
    for (uint64_t page = first; page < last; ++page) {
      if (pages_.contains(page)) touched.push_back(page);
    }
  } else {
    for (const auto& [page, blocks] : pages_) {
      if (page >= first && page < last) touched.push_back(page);
    }
  }
  for (const uint64_t page : touched) {
    for (const auto& block : pages_[page]) {
      // Another block may have taken its place.
      const auto it = blocks_.find(block->guest_pc);
      if (it != blocks_.end() && it->second == block) Unlink(*block);
    }
    pages_.erase(page);
  }
  return !touched.empty();
}

void CodeCache::Clear() {
  for (const auto& [pc, block] : blocks_) {
    if (pc != 0) SetInMap(pc, 0);
  }
  blocks_.clear();
  sites_.clear();
  pages_.clear();
  for (Arena& arena : arenas_) StartArena(&arena);
}

std::optional<GuestPlace> CodeCache::Recover(uint64_t host) const {
  for (const Arena& arena : arenas_) {
    if (host - arena.start >= arena.used) continue;
    auto it = std::upper_bound(arena.blocks.begin(), arena.blocks.end(), host,
                               [](uint64_t h, const auto& b) { return h < b->host; });
    if (it == arena.blocks.begin()) return std::nullopt;  // a stub
    const Block& block = **--it;
    const auto offset = static_cast<uint32_t>(host - block.host);
    auto entry = std::upper_bound(block.side.begin(), block.side.end(), offset,
                                  [](uint32_t o, const SideEntry& e) { return o < e.host_offset; });
    if (entry == block.side.begin()) return std::nullopt;
    --entry;
    return GuestPlace{block.guest_pc + entry->guest_offset, entry->adjust, entry->saved};
  }
  return std::nullopt;
}

void CodeCache::CopyTo(CodeCache* other) const {
  other->arenas_ = arenas_;
  other->blocks_ = blocks_;
  other->sites_ = sites_;
  other->pages_ = pages_;
  for (const Arena& arena : arenas_) {
    std::memcpy(other->file_->code(arena.start), file_->code(arena.start), arena.used);
  }
  for (const auto& [pc, block] : blocks_) {
    if (pc != 0) other->SetInMap(pc, block->host);
  }
}

}  // namespace hindsight
