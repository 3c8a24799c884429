#include "recorder/translate/code_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

CodeCache::CodeCache(MemoryFile* file, TranslationMemo* memo) : file_(file), memo_(memo) {
  arenas_[0].start = kLibraryArena;
  arenas_[1].start = kPieArena;
  for (Arena& arena : arenas_) {
    const Stubs stubs = EmitStubs(arena.start);
    std::memcpy(file_->code(arena.start), stubs.code.data(), stubs.code.size());
    arena.stubs = stubs.addresses;
  }
}

CodeCache::~CodeCache() {
  for (const Arena& arena : arenas_) memo_->GiveBack({arena.next, arena.end});
}

CodeCache::Arena& CodeCache::ArenaFor(uint64_t guest_pc) {
  return arenas_[kLibraryWindow.Has(guest_pc, guest_pc) ? 0 : 1];
}

StubAddresses CodeCache::StubsFor(uint64_t guest_pc) const {
  return const_cast<CodeCache*>(this)->ArenaFor(guest_pc).stubs;
}

uint64_t CodeCache::PlaceFor(uint64_t guest_pc, uint64_t bytes) {
  Arena& arena = ArenaFor(guest_pc);
  // The block map is at most half full, that it stays fast.
  if (map_entries_ >= kBlockMapEntries / 2) return 0;
  if (arena.end - arena.next < bytes) {
    memo_->GiveBack({arena.next, arena.end});
    const TranslationMemo::Chunk chunk = memo_->TakeChunk(arena.start);
    arena.next = chunk.start;
    arena.end = chunk.end;
  }
  return arena.next;
}

void CodeCache::Use(uint64_t guest_pc, uint64_t bytes) {
  Arena& arena = ArenaFor(guest_pc);
  arena.next = std::min(AlignUp(arena.next + bytes, kHostAlignment), arena.end);
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
  if (guest_pc == 0) return;  // there it means a free entry
  const absl::Span<BlockMapEntry> map = file_->block_map();
  uint64_t i = BlockMapIndex(guest_pc);
  while (map[i].guest_pc != 0 && map[i].guest_pc != guest_pc) i = (i + 1) % kBlockMapEntries;
  __atomic_store_n(&map[i].host, host, __ATOMIC_RELEASE);
  if (map[i].guest_pc == 0) ++map_entries_;
  __atomic_store_n(&map[i].guest_pc, guest_pc, __ATOMIC_RELEASE);
}

void CodeCache::RegisterPages(Block block, uint64_t start, uint64_t bytes) {
  const uint64_t last = start + std::max<uint64_t>(bytes, 1) - 1;
  for (uint64_t page = start / kPageBytes; page <= last / kPageBytes; ++page) {
    auto& blocks = pages_[page];
    if (blocks.empty() || blocks.back() != block) blocks.push_back(block);
  }
}

// For the first time: a block that comes back after it was invalid may have threads in it.
void CodeCache::WriteBlock(const Translation& translation) {
  const absl::Span<const uint8_t> code = translation.block.code;
  WriteCode(translation, file_->code(translation.host));
  code_bytes_ += code.size();
  for (const Link& link : translation.block.links) {
    Site site = {.host = translation.host + link.rel32_offset};
    std::memcpy(&site.to_exit, code.data() + link.rel32_offset, sizeof(site.to_exit));
    sites_[link.guest_target].push_back(site);
  }
}

void CodeCache::LinkBranches(const Translation& translation) {
  for (const Link& link : translation.block.links) {
    const uint64_t site = translation.host + link.rel32_offset, target = Find(link.guest_target);
    if (target != 0) WriteSite({.host = site}, static_cast<int32_t>(target - site - 4));
  }
}

void CodeCache::AddApart(Block translation) {
  WriteBlock(*translation);
  LinkBranches(*translation);
  const uint64_t host = translation->host;
  written_[host] = translation;
}

void CodeCache::Add(Block translation) {
  const uint64_t guest_pc = translation->guest_pc, host = translation->host;
  const StoredBlock& block = translation->block;
  if (written_.try_emplace(host, translation).second) WriteBlock(*translation);
  RegisterPages(translation, guest_pc, block.guest_bytes);
  for (const CodeRange& range : block.relied_on) RegisterPages(translation, range.pc, range.bytes);
  blocks_[guest_pc] = translation;
  LinkBranches(*translation);
  if (const auto it = sites_.find(guest_pc); it != sites_.end()) {
    for (const Site& site : it->second) {
      WriteSite(site, static_cast<int32_t>(host - site.host - 4));
    }
  }
  SetInMap(guest_pc, host);
}

void CodeCache::Unlink(const Translation& block) {
  if (const auto it = sites_.find(block.guest_pc); it != sites_.end()) {
    for (const Site& site : it->second) WriteSite(site, site.to_exit);
  }
  SetInMap(block.guest_pc, 0);
  blocks_.erase(block.guest_pc);
}

const Translation* CodeCache::Get(uint64_t guest_pc) const {
  const auto it = blocks_.find(guest_pc);
  return it == blocks_.end() ? nullptr : it->second;
}

void CodeCache::Drop(uint64_t guest_pc) {
  if (const Block block = Get(guest_pc)) Unlink(*block);
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
    for (const Block block : pages_[page]) {
      // Another block may have taken its place.
      const auto it = blocks_.find(block->guest_pc);
      if (it != blocks_.end() && it->second == block) Unlink(*block);
    }
    pages_.erase(page);
  }
  return !touched.empty();
}

std::optional<GuestPlace> CodeCache::Recover(uint64_t host) const {
  auto it = written_.upper_bound(host);
  if (it == written_.begin()) return std::nullopt;
  const Translation& translation = *(--it)->second;
  const StoredBlock& block = translation.block;
  const uint64_t offset = host - translation.host;
  if (offset >= block.code.size()) return std::nullopt;  // a stub
  auto entry = std::upper_bound(block.side.begin(), block.side.end(), offset,
                                [](uint64_t o, const SideEntry& e) { return o < e.host_offset; });
  if (entry == block.side.begin()) return std::nullopt;
  --entry;
  return GuestPlace{translation.guest_pc + entry->guest_offset, entry->adjust, entry->saved};
}

}  // namespace hindsight
