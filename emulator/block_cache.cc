#include "emulator/block_cache.h"

#include <algorithm>
#include <utility>

#include "emulator/instruction.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

}  // namespace

void BlockCache::SetMemoryModel(MemoryModel model) {
  if (model == memory_model_) return;
  memory_model_ = model;
  std::fill(slots_.begin(), slots_.end(), nullptr);
  blocks_.clear();
  by_page_.clear();
}

Block* BlockCache::FindSlow(uint64_t address, uint32_t size, Block*& slot) {
  auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second->size != size) return nullptr;
  return slot = found->second.get();
}

Block* BlockCache::Add(uint64_t address, absl::Span<const uint8_t> code,
                       const absl::flat_hash_set<uint64_t>& breakpoints, bool step_only) {
  auto block = std::make_unique<Block>();
  block->address = address;
  block->size = static_cast<uint32_t>(code.size());
  if (step_only) block->flags |= Block::kStepOnly;
  size_t offset = 0;
  while (offset < code.size()) {
    Instruction instruction = Classify(code.subspan(offset));
    if (instruction.policy != Policy::kEmulate) block->flags |= Block::kSpecial;
    if (instruction.length == 0) break;
    if (breakpoints.contains(address + offset)) {
      block->flags |= Block::kBreakpoint;
      ++block->breakpoints;
      block->last_breakpoint = block->instructions;
    }
    if (IsOrderable(instruction, memory_model_)) {
      block->flags |= Block::kOrderable;
      block->orderable.push_back(block->instructions);
    }
    block->final_rep = instruction.rep ? address + offset : Block::kNoAddress;
    ++block->instructions;
    offset += instruction.length;
  }
  // Where our decoder and Unicorn disagree about the block's end, only stepping counts right.
  if (offset != code.size() || code.empty()) block->flags |= Block::kStepOnly;

  Block* result = block.get();
  auto& place = blocks_[address];
  uint64_t last_page = PageOf(address + (code.empty() ? 0 : code.size() - 1));
  if (place == nullptr) by_page_[PageOf(address)].push_back(address);
  if (last_page != PageOf(address)) by_page_[last_page].push_back(address);
  if (place != nullptr && slots_[Slot(address)] == place.get()) slots_[Slot(address)] = nullptr;
  place = std::move(block);
  slots_[Slot(address)] = result;
  return result;
}

void BlockCache::DropPage(uint64_t page) {
  auto found = by_page_.find(page);
  if (found == by_page_.end()) return;
  for (uint64_t address : found->second) {
    auto block = blocks_.find(address);
    if (block == blocks_.end()) continue;
    if (slots_[Slot(address)] == block->second.get()) slots_[Slot(address)] = nullptr;
    blocks_.erase(block);
  }
  by_page_.erase(found);
}

void BlockCache::DropContaining(const absl::flat_hash_set<uint64_t>& addresses) {
  std::vector<uint64_t> dropped;
  for (uint64_t address : addresses) {
    // A block that starts on the page before may reach over.
    for (uint64_t page : {PageOf(address), PageOf(address) - kPageBytes}) {
      auto found = by_page_.find(page);
      if (found == by_page_.end()) continue;
      for (uint64_t start : found->second) {
        auto block = blocks_.find(start);
        if (block != blocks_.end() && address >= start && address < start + block->second->size) {
          dropped.push_back(start);
        }
      }
    }
  }
  for (uint64_t start : dropped) {
    auto block = blocks_.find(start);
    if (block == blocks_.end()) continue;
    if (slots_[Slot(start)] == block->second.get()) slots_[Slot(start)] = nullptr;
    blocks_.erase(block);
  }
}

}  // namespace hindsight
