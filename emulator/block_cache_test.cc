#include "emulator/block_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace hindsight {
namespace {

constexpr uint64_t kBase = 0x401ffa;
const std::vector<uint8_t> kNops(12, 0x90);
const absl::flat_hash_set<uint64_t> kNoBreakpoints;

TEST(BlockCacheTest, CountsInstructions) {
  BlockCache cache;
  // inc rax; rep stosb
  std::vector<uint8_t> code = {0x48, 0xff, 0xc0, 0xf3, 0xaa};
  Block* block = cache.Add(kBase, code, kNoBreakpoints, false);
  EXPECT_EQ(block->instructions, 2u);
  EXPECT_EQ(block->final_rep, kBase + 3);
  EXPECT_EQ(block->flags, 0);
  EXPECT_EQ(cache.Find(kBase, 5), block);
  EXPECT_EQ(cache.Find(kBase, 4), nullptr);
}

TEST(BlockCacheTest, FlagsWhatMustNotBeRunThrough) {
  BlockCache cache;
  // nop; syscall
  EXPECT_EQ(cache.Add(kBase, {0x90, 0x0f, 0x05}, kNoBreakpoints, false)->flags, Block::kSpecial);
  EXPECT_EQ(cache.Add(kBase, kNops, kNoBreakpoints, true)->flags, Block::kStepOnly);
  // Cut off in the middle of an instruction.
  EXPECT_NE(cache.Add(kBase, {0x90, 0x48}, kNoBreakpoints, false)->flags & Block::kStepOnly, 0);
  Block* block = cache.Add(kBase, kNops, {kBase + 2, kBase + 5, kBase + 12}, false);
  EXPECT_EQ(block->flags, Block::kBreakpoint);
  EXPECT_EQ(block->breakpoints, 2u);
  EXPECT_EQ(block->last_breakpoint, 5u);
}

TEST(BlockCacheTest, NotesOrderableInstructions) {
  BlockCache cache;
  // mov rax,[rdi]; nop; lock inc qword [rdi]; push rax
  const std::vector<uint8_t> code = {0x48, 0x8b, 0x07, 0x90, 0xf0, 0x48, 0xff, 0x07, 0x50};
  EXPECT_TRUE(cache.Add(kBase, code, kNoBreakpoints, false)->orderable.empty());
  using Indices = std::vector<uint32_t>;
  cache.SetMemoryModel(MemoryModel::kFence);
  EXPECT_EQ(cache.Find(kBase, 9), nullptr);
  Block* block = cache.Add(kBase, code, kNoBreakpoints, false);
  EXPECT_EQ(block->orderable, Indices{2});
  EXPECT_EQ(block->flags, Block::kOrderable);
  cache.SetMemoryModel(MemoryModel::kFence);
  EXPECT_EQ(cache.Find(kBase, 9), block);
  cache.SetMemoryModel(MemoryModel::kAcqRel);
  EXPECT_EQ(cache.Add(kBase, code, kNoBreakpoints, false)->orderable, (Indices{2, 3}));
  cache.SetMemoryModel(MemoryModel::kLoad);
  EXPECT_EQ(cache.Add(kBase, code, kNoBreakpoints, false)->orderable, (Indices{0, 2, 3}));
}

TEST(BlockCacheTest, DroppingEitherPageDropsABlockOnBoth) {
  for (uint64_t page : {uint64_t{0x401000}, uint64_t{0x402000}}) {
    BlockCache cache;
    cache.Add(kBase, kNops, kNoBreakpoints, false);
    cache.DropPage(0x403000);
    EXPECT_NE(cache.Find(kBase, 12), nullptr);
    cache.DropPage(page);
    EXPECT_EQ(cache.Find(kBase, 12), nullptr);
  }
}

TEST(BlockCacheTest, DropContainingDropsJustThose) {
  BlockCache cache;
  cache.Add(kBase, kNops, kNoBreakpoints, false);
  cache.Add(kBase + 12, kNops, kNoBreakpoints, false);
  cache.DropContaining({kBase + 11});
  EXPECT_EQ(cache.Find(kBase, 12), nullptr);
  EXPECT_NE(cache.Find(kBase + 12, 12), nullptr);
}

TEST(BlockCacheTest, BlocksThatShareASlotAreBothFound) {
  BlockCache cache;
  // Equal in the bits the front table looks at.
  uint64_t other = (kBase ^ 0x10000) ^ 0x100000000;
  cache.Add(kBase, kNops, kNoBreakpoints, false);
  cache.Add(other, kNops, kNoBreakpoints, false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cache.Find(kBase, 12)->address, kBase);
    EXPECT_EQ(cache.Find(other, 12)->address, other);
  }
}

}  // namespace
}  // namespace hindsight
