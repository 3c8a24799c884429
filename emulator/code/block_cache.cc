#include "emulator/code/block_cache.h"

#include <algorithm>
#include <utility>

#include "emulator/code/instruction.h"
#include "emulator/code/x87_stack.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// A step costs some hundred times what running through the block does. What is ever misaligned
// mostly is so at first.
constexpr uint8_t kSteppedUnchecked = 100;

uint64_t LastPage(const Block& block) {
  return PageOf(block.address + (block.size == 0 ? 0 : block.size - 1));
}

void RenewCheck(Block* block) {
  if (!block->computes_aligned) return;
  block->flags |= Block::kUnchecked;
  block->steps_left = kSteppedUnchecked;
}

}  // namespace

void BlockCache::SetMemoryModel(MemoryModel model) {
  if (std::exchange(memory_model_, model) != model) Clear();
}

void BlockCache::CheckAlignment() {
  if (!std::exchange(checks_alignment_, true)) Clear();
  for (const auto& [address, block] : blocks_) RenewCheck(block.get());
}

void BlockCache::Clear() {
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
                       const absl::flat_hash_set<uint64_t>& breakpoints) {
  auto block = std::make_unique<Block>();
  block->address = address;
  block->size = static_cast<uint32_t>(code.size());
  size_t offset = 0;
  bool flags_set = false, aligned = false, keeps = false, moves_x87 = false;
  while (offset < code.size()) {
    Instruction instruction = Classify(code.subspan(offset));
    if (instruction.policy != Policy::kEmulate) block->flags |= Block::kSpecial;
    if (instruction.wants_settled_flags && flags_set) block->flags |= Block::kSpecial;
    flags_set |= instruction.sets_flags;
    aligned |= instruction.aligned;
    keeps |= instruction.kept_gpr != kNoGpr;
    moves_x87 |= MovesX87Conditionally(instruction.mnemonic);
    if (instruction.floating) block->flags |= Block::kFloating;
    if (instruction.writes_memory) block->flags |= Block::kWrites;
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
    if (instruction.rep_at_once) block->flags |= Block::kRepAtOnce;  // a REP is always the last
    ++block->instructions;
    offset += instruction.length;
  }
  // Where our decoder and Unicorn disagree about the block's end, only stepping counts right.
  if (offset != code.size() || code.empty()) block->flags |= Block::kStepOnly;

  if (aligned && checks_alignment_) {
    BlockAlignment alignment = AlignmentOf(address, code);
    if (!alignment.checks.empty()) block->flags |= Block::kAligned;
    block->computes_aligned = alignment.unknown;
    RenewCheck(block.get());
    if (alignment.kept) block->flags |= Block::kKept;
    block->alignment = std::move(alignment.checks);
  }

  if (keeps) {
    BlockUpperHalves halves = UpperHalvesOf(code);
    if (halves.unknown) block->flags |= Block::kSpecial;
    if (!halves.checks.empty()) block->flags |= Block::kUpperHalf;
    block->upper_halves = std::move(halves.checks);
  }

  if (moves_x87) {
    const BlockX87Stack stack = X87StackOf(code);
    if (stack.unknown) block->flags |= Block::kSpecial;
    if (stack.needed != 0) block->flags |= Block::kX87Stack;
    block->x87_needed = stack.needed;
  }

  const auto known = blocks_.find(address);
  if (known != blocks_.end()) Drop(known->second.get());
  Block* result = block.get();
  by_page_[PageOf(address)].push_back(result);
  if (LastPage(*result) != PageOf(address)) by_page_[LastPage(*result)].push_back(result);
  blocks_[address] = std::move(block);
  slots_[Slot(address)] = result;
  return result;
}

void BlockCache::Drop(Block* block) {
  for (uint64_t page : {PageOf(block->address), LastPage(*block)}) {
    const auto found = by_page_.find(page);
    if (found == by_page_.end()) continue;
    auto& blocks = found->second;
    blocks.erase(std::remove(blocks.begin(), blocks.end(), block), blocks.end());
  }
  Block*& slot = slots_[Slot(block->address)];
  if (slot == block) slot = nullptr;
  blocks_.erase(block->address);
}

void BlockCache::Invalidate(uint64_t page) {
  const auto found = by_page_.find(page);
  if (found == by_page_.end()) return;
  for (Block* block : found->second) block->epoch = 0;
}

bool BlockCache::DropRange(uint64_t begin, uint64_t end) {
  const auto found = by_page_.find(PageOf(begin));
  if (found == by_page_.end()) return false;
  std::vector<Block*> dropped;
  for (Block* block : found->second) {
    // An empty block is what could not be decoded at its address.
    const uint64_t size = std::max(block->size, uint32_t{1});
    if (block->address < end && block->address + size > begin) dropped.push_back(block);
  }
  bool writes = false;
  for (Block* block : dropped) {
    writes |= (block->flags & Block::kWrites) != 0;
    Drop(block);
  }
  return writes;
}

void BlockCache::DropContaining(const absl::flat_hash_set<uint64_t>& addresses) {
  for (uint64_t address : addresses) DropRange(address, address + 1);
}

}  // namespace hindsight
