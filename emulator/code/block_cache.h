// The basic blocks that Unicorn executes: how many instructions each has, and whether it contains
// something that must not be run through.
//
// Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_CODE_BLOCK_CACHE_H_
#define HINDSIGHT_EMULATOR_CODE_BLOCK_CACHE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "emulator/code/upper_half.h"
#include "isa/alignment.h"
#include "isa/memory_model.h"

namespace hindsight {

// Plain data.
struct Block {
  static constexpr uint16_t kSpecial = 1;     // an instruction Unicorn must not run, or not in it
  static constexpr uint16_t kBreakpoint = 2;  // a breakpoint at an instruction
  static constexpr uint16_t kStepOnly = 4;    // does not decode
  static constexpr uint16_t kOrderable = 8;   // an orderable instruction
  static constexpr uint16_t kWrites = 16;     // an instruction that writes memory
  // Set and cleared by the Cpu, for blocks on a page whose code changes without notice:
  static constexpr uint16_t kGuarded = 32;    // compare before running it
  static constexpr uint16_t kStepHere = 64;   // it might change itself
  static constexpr uint16_t kFloating = 128;  // Instruction::floating
  // Only where alignment is checked:
  static constexpr uint16_t kAligned = 256;  // `alignment` decides whether to run through it
  // An address that must be aligned is computed in it, and it was not stepped often enough yet.
  static constexpr uint16_t kUnchecked = 512;
  static constexpr uint16_t kKept = 1024;       // need not be checked again if it follows itself
  static constexpr uint16_t kUpperHalf = 2048;  // likewise `upper_halves`
  static constexpr uint16_t kX87Stack = 4096;   // likewise `x87_needed`
  static constexpr uint16_t kRepAtOnce = 8192;  // final_rep is Instruction::rep_at_once

  uint64_t address = 0;
  uint32_t size = 0;  // bytes; as Unicorn gave it
  uint32_t instructions = 0;
  uint64_t final_rep = kNoAddress;  // address of the last instruction if it is a REP one
  uint32_t breakpoints = 0;         // how many, and
  uint32_t last_breakpoint = 0;     // the index of the instruction of the last
  uint32_t epoch = 0;               // TranslatedCode's when its pages were last known to be held
  uint16_t flags = 0;
  std::vector<uint32_t> orderable;  // the indices of the orderable instructions, rising
  std::vector<AlignmentCheck> alignment;
  std::vector<UpperHalfCheck> upper_halves;
  uint8_t x87_needed = 0;  // registers that must not be empty: x87_stack.h
  // There is an address that must be aligned and that is computed in the block.
  bool computes_aligned = false;
  uint8_t steps_left = 0;  // kUnchecked: how often it is still to be stepped

  static constexpr uint64_t kNoAddress = ~uint64_t{0};
};

class BlockCache {
 public:
  BlockCache() : slots_(kSlots, nullptr) {}
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Which instructions are orderable. Forgets all blocks if that changes.
  void SetMemoryModel(MemoryModel model);

  // From now on determines what must be aligned. Forgets all blocks if it did not so far; else how
  // often they were stepped.
  void CheckAlignment();

  // Find() where that needs no search; nullptr also if it does.
  Block* FindQuickly(uint64_t address, uint32_t size) const {
    Block* const block = slots_[Slot(address)];
    return block != nullptr && block->address == address && block->size == size ? block : nullptr;
  }

  // nullptr if not known with this size.
  Block* Find(uint64_t address, uint32_t size) {
    Block*& slot = slots_[Slot(address)];
    if (slot != nullptr && slot->address == address && slot->size == size) [[likely]]
      return slot;
    return FindSlow(address, size, slot);
  }

  // The block last used that begins there, whatever its size. nullptr if it has been displaced.
  const Block* FindAt(uint64_t address) const {
    const Block* const block = slots_[Slot(address)];
    return block != nullptr && block->address == address ? block : nullptr;
  }

  // Decodes the block whose bytes are `code` and remembers it. Invalidates nothing.
  Block* Add(uint64_t address, absl::Span<const uint8_t> code,
             const absl::flat_hash_set<uint64_t>& breakpoints);

  size_t size() const { return blocks_.size(); }

  // Sets the epoch of the blocks that touch `page` to 0: they are validated again.
  void Invalidate(uint64_t page);
  // Forgets the blocks that touch [begin, end), which lies on one page. True if one of them
  // writes to memory.
  bool DropRange(uint64_t begin, uint64_t end);
  // Forgets all blocks in whose range an address of `addresses` lies.
  void DropContaining(const absl::flat_hash_set<uint64_t>& addresses);

 private:
  static constexpr size_t kSlots = 1 << 16;
  static size_t Slot(uint64_t address) { return (address ^ (address >> 16)) & (kSlots - 1); }
  Block* FindSlow(uint64_t address, uint32_t size, Block*& slot);
  void Drop(Block* block);
  void Clear();

  bool checks_alignment_ = false;
  MemoryModel memory_model_ = MemoryModel::kKernel;
  std::vector<Block*> slots_;  // direct-mapped front of blocks_
  absl::flat_hash_map<uint64_t, std::unique_ptr<Block>> blocks_;
  absl::flat_hash_map<uint64_t, std::vector<Block*>> by_page_;  // those that touch the page
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CODE_BLOCK_CACHE_H_
