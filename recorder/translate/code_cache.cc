#include "recorder/translate/code_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tracefmt/records.h"
#include "translator/host/branch_site.h"

namespace hindsight {
namespace {

uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// What the block map has of a block.
uint64_t HostInMap(uint64_t host, uint16_t flags_read) {
  return flags_read != 0 ? host | kReadsFlags : host;
}

}  // namespace

CodeCache::CodeCache(MemoryFile* file, TranslationMemo* memo) : file_(file), memo_(memo) {
  arenas_[0].start = kLibraryArena;
  arenas_[1].start = kPieArena;
  WriteStubs(/*exclusive=*/false);
}

void CodeCache::WriteStubs(bool exclusive) {
  for (Arena& arena : arenas_) {
    const Stubs stubs = EmitStubs(arena.start, /*direct=*/exclusive);
    std::memcpy(file_->code(arena.start), stubs.code.data(), stubs.code.size());
    arena.stubs = stubs.addresses;
  }
}

CodeCache::~CodeCache() {
  for (const Arena& arena : arenas_) memo_->GiveBack({arena.next, arena.end});
}

void CodeCache::Inherit(const CodeCache& maker) {
  blocks_ = maker.blocks_;
  sites_ = maker.sites_;
  pages_ = maker.pages_;
  known_pages_ = maker.known_pages_;
  written_pages_ = maker.written_pages_;
  modules_ = maker.modules_;
  ways_ = maker.ways_;
  page_blocks_ = maker.page_blocks_;
  map_entries_ = maker.map_entries_;
  code_bytes_ = maker.code_bytes_;
  // Their checks may be left out where maker has a guard: they are written anew when they are
  // taken in.
  for (const auto& [host, block] : maker.written_) {
    if (!block->checks_code) written_.emplace_hint(written_.end(), host, block);
  }
  for (const auto& [guest_pc, block] : maker.blocks_) {
    if (block->checks_code) Unlink(*block);
  }
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

uint64_t CodeCache::UseForExits(uint64_t guest_pc, uint64_t bytes) {
  Arena& arena = ArenaFor(guest_pc);
  arena.end = std::max((arena.end - bytes) / kHostAlignment * kHostAlignment, arena.next);
  return arena.end;
}

uint64_t CodeCache::Find(uint64_t guest_pc) const {
  if (const auto page = known_pages_.find(guest_pc / kPageBytes); page != known_pages_.end()) {
    const PageImage::Block* const block = page->second->image.Find(guest_pc);
    if (block != nullptr) return page->second->host + block->code_offset;
  }
  const auto it = blocks_.find(guest_pc);
  return it == blocks_.end() ? 0 : it->second->host;
}

void CodeCache::WriteSite(const Site& site, int32_t displacement) {
  SetBranch(file_->code(site.host), displacement);
}

// Of its entry, or of a free one.
uint64_t CodeCache::IndexInMap(uint64_t key) const {
  const absl::Span<BlockMapEntry> map = file_->block_map();
  uint64_t i = BlockMapIndex(key);
  while (map[i].guest_pc != 0 && map[i].guest_pc != key) i = (i + 1) % kBlockMapEntries;
  return i;
}

void CodeCache::SetInMap(uint64_t key, uint64_t host) {
  if (key == 0) return;  // there it means a free entry
  BlockMapEntry& entry = file_->block_map()[IndexInMap(key)];
  __atomic_store_n(&entry.host, host, __ATOMIC_RELEASE);
  if (entry.guest_pc == 0) ++map_entries_;
  __atomic_store_n(&entry.guest_pc, key, __ATOMIC_RELEASE);
}

uint64_t CodeCache::FindWay(uint64_t key) const { return file_->block_map()[IndexInMap(key)].host; }

void CodeCache::AddWay(uint64_t key, Block translation) {
  AddApart(translation);
  SetInMap(key, translation->host);
  ways_.push_back(key);
}

void CodeCache::RegisterPages(Block block, uint64_t start, uint64_t bytes) {
  const uint64_t last = start + std::max<uint64_t>(bytes, 1) - 1;
  for (uint64_t page = start / kPageBytes; page <= last / kPageBytes; ++page) {
    auto& blocks = pages_[page];
    if (blocks.empty() || blocks.back() != block) blocks.push_back(block);
  }
}

void CodeCache::NoteSites(const Translation& translation) {
  for (const Link& link : translation.block.links) {
    const uint64_t site = translation.host + link.rel32_offset;
    sites_[link.guest_target].push_back({site, ToExit(translation, link)});
  }
}

// For the first time: a block that comes back after it was invalid may have threads in it.
void CodeCache::WriteBlock(const Translation& translation) {
  WriteCode(translation, {translation.host, translation.exits_host}, file_->code(translation.host),
            file_->code(translation.exits_host));
  code_bytes_ += translation.block.code.size() + translation.block.exits.size();
  NoteSites(translation);
}

void CodeCache::LinkBranches(const Translation& translation) {
  for (const Link& link : translation.block.links) {
    const uint64_t site = translation.host + link.rel32_offset, target = Find(link.guest_target);
    if (target != 0) WriteSite({.host = site}, static_cast<int32_t>(target - site - 4));
  }
}

void CodeCache::ForEachSite(uint64_t guest_pc,
                            const std::function<void(const Site&)>& visit) const {
  if (const auto it = sites_.find(guest_pc); it != sites_.end()) {
    for (const Site& site : it->second) visit(site);
  }
  for (const Page module : modules_) {
    for (const auto& link : TranslationMemo::LinksTo(*module, guest_pc, guest_pc + 1)) {
      const auto from = known_pages_.find(link.page);
      if (from == known_pages_.end() || from->second->module != module->module) continue;
      visit({from->second->host + link.site, from->second->image.ToExit(link.AsLink())});
    }
  }
}

void CodeCache::AddApart(Block translation) {
  WriteBlock(*translation);
  LinkBranches(*translation);
  const uint64_t host = translation->host;
  written_[host] = translation;
}

void CodeCache::NoteBlock(Block translation) {
  const StoredBlock& block = translation->block;
  RegisterPages(translation, translation->guest_pc, block.guest_bytes);
  for (const CodeRange& range : block.relied_on) RegisterPages(translation, range.pc, range.bytes);
  blocks_[translation->guest_pc] = translation;
}

void CodeCache::Add(Block translation) {
  const uint64_t guest_pc = translation->guest_pc, host = translation->host;
  if (written_.try_emplace(host, translation).second) WriteBlock(*translation);
  NoteBlock(translation);
  LinkBranches(*translation);
  ForEachSite(guest_pc, [this, host](const Site& site) {
    WriteSite(site, static_cast<int32_t>(host - site.host - 4));
  });
  SetInMap(guest_pc, HostInMap(host, FlagsReadBy(translation->block)));
}

bool CodeCache::HasBlocksIn(Page page) const {
  const auto blocks = pages_.find(page->image.page());
  if (blocks != pages_.end()) {
    for (const Block block : blocks->second) {
      if (block->guest_pc / kPageBytes == page->image.page()) return true;
    }
  }
  const auto written = written_.lower_bound(page->host);
  return written != written_.end() && written->first < page->host + page->image.code_bytes();
}

bool CodeCache::AddPage(Page page) {
  if (written_pages_.contains(page->host) || HasBlocksIn(page)) return false;
  // The block map stays as PlaceFor has it.
  if (map_entries_ + 2 * page->image.blocks().size() >= kBlockMapEntries / 2) return false;
  const uint64_t bytes = page->image.code_bytes();
  if (piece_.size() < bytes) piece_.resize(bytes);
  page->image.WriteCode(page->host, piece_.data());
  LinkFrom(page, piece_.data());
  file_->WriteCode(page->host, absl::MakeConstSpan(piece_).first(bytes));
  code_bytes_ += bytes;
  page_blocks_ += page->image.blocks().size();
  written_pages_.insert(page->host);
  known_pages_[page->image.page()] = page;
  if (std::none_of(modules_.begin(), modules_.end(),
                   [=](Page other) { return other->module == page->module; })) {
    modules_.push_back(page);
  }
  LinkTo(page);
  for (const PageImage::Block& block : page->image.blocks()) {
    SetInMap(block.guest_pc, HostInMap(page->host + block.code_offset, block.flags_read));
  }
  return true;
}

// Leads from the page's code, which is at `code` as yet, to what is here already.
void CodeCache::LinkFrom(Page page, uint8_t* code) const {
  for (const Link& link : page->image.links()) {
    const uint64_t site = page->host + link.rel32_offset, target = Find(link.guest_target);
    if (target != 0) SetBranch(code + link.rel32_offset, static_cast<int32_t>(target - site - 4));
  }
}

// Leads from what is here already.
void CodeCache::LinkTo(Page page) {
  const uint64_t start = page->image.page() * kPageBytes;
  for (const auto& link : TranslationMemo::LinksTo(*page, start, start + kPageBytes)) {
    const auto from = known_pages_.find(link.page);
    if (from == known_pages_.end() || from->second->module != page->module) continue;
    const PageImage::Block* const block = page->image.Find(link.guest_target);
    if (block == nullptr) continue;
    const uint64_t site = from->second->host + link.site;
    WriteSite({.host = site}, static_cast<int32_t>(page->host + block->code_offset - site - 4));
  }
  if (sites_.empty()) return;
  for (const PageImage::Block& block : page->image.blocks()) {
    const auto it = sites_.find(block.guest_pc);
    if (it == sites_.end()) continue;
    for (const Site& site : it->second) {
      WriteSite(site, static_cast<int32_t>(page->host + block.code_offset - site.host - 4));
    }
  }
}

void CodeCache::TakeApart(Page page) {
  known_pages_.erase(page->image.page());
  page_blocks_ -= page->image.blocks().size();
  for (const Block block : memo_->BlocksOf(*page)) {
    written_.try_emplace(block->host, block);
    NoteSites(*block);
    NoteBlock(block);
  }
}

void CodeCache::Unlink(const Translation& block) {
  ForEachSite(block.guest_pc, [this](const Site& site) { WriteSite(site, site.to_exit); });
  SetInMap(block.guest_pc, 0);
  blocks_.erase(block.guest_pc);
}

const Translation* CodeCache::Get(uint64_t guest_pc) {
  const auto page = known_pages_.find(guest_pc / kPageBytes);
  if (page != known_pages_.end() && page->second->image.Find(guest_pc) != nullptr) {
    TakeApart(page->second);
  }
  const auto it = blocks_.find(guest_pc);
  return it == blocks_.end() ? nullptr : it->second;
}

void CodeCache::ForEachBlockIn(uint64_t page,
                               const std::function<void(const Translation&)>& visit) const {
  const auto blocks = pages_.find(page / kPageBytes);
  if (blocks == pages_.end()) return;
  for (const Block block : blocks->second) {
    const auto it = blocks_.find(block->guest_pc);
    if (it != blocks_.end() && it->second == block) visit(*block);
  }
}

void CodeCache::Drop(uint64_t guest_pc) {
  if (const Block block = Get(guest_pc)) Unlink(*block);
}

bool CodeCache::Invalidate(uint64_t start, uint64_t end) {
  std::vector<Page> known;
  for (const auto& [number, page] : known_pages_) {
    if (page->image.DependsOn(PageOf(start), PageOf(end + kPageBytes - 1))) known.push_back(page);
  }
  for (const Page page : known) TakeApart(page);
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

void CodeCache::ForgetAll() {
  for (const auto& [number, page] : known_pages_) {
    for (const PageImage::Block& block : page->image.blocks()) SetInMap(block.guest_pc, 0);
  }
  for (const auto& [guest_pc, block] : blocks_) SetInMap(guest_pc, 0);
  for (const uint64_t key : ways_) SetInMap(key, 0);
  known_pages_.clear();
  modules_.clear();
  blocks_.clear();
  pages_.clear();
  sites_.clear();
  ways_.clear();
  page_blocks_ = 0;
}

}  // namespace hindsight
