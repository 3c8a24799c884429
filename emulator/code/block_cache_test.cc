#include "emulator/code/block_cache.h"

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
  Block* block = cache.Add(kBase, code, kNoBreakpoints);
  EXPECT_EQ(block->instructions, 2u);
  EXPECT_EQ(block->final_rep, kBase + 3);
  EXPECT_EQ(block->flags, Block::kWrites | Block::kRepAtOnce);
  EXPECT_EQ(cache.Find(kBase, 5), block);
  EXPECT_EQ(cache.Find(kBase, 4), nullptr);
}

TEST(BlockCacheTest, FlagsWhatMustNotBeRunThrough) {
  BlockCache cache;
  // nop; syscall
  EXPECT_EQ(cache.Add(kBase, {0x90, 0x0f, 0x05}, kNoBreakpoints)->flags, Block::kSpecial);
  // push rax
  EXPECT_EQ(cache.Add(kBase, {0x50}, kNoBreakpoints)->flags, Block::kWrites);
  // Cut off in the middle of an instruction.
  EXPECT_NE(cache.Add(kBase, {0x90, 0x48}, kNoBreakpoints)->flags & Block::kStepOnly, 0);
  Block* block = cache.Add(kBase, kNops, {kBase + 2, kBase + 5, kBase + 12});
  EXPECT_EQ(block->flags, Block::kBreakpoint);
  EXPECT_EQ(block->breakpoints, 2u);
  EXPECT_EQ(block->last_breakpoint, 5u);
}

TEST(BlockCacheTest, NotesOrderableInstructions) {
  BlockCache cache;
  // mov rax,[rdi]; nop; lock inc qword [rdi]; push rax
  const std::vector<uint8_t> code = {0x48, 0x8b, 0x07, 0x90, 0xf0, 0x48, 0xff, 0x07, 0x50};
  EXPECT_TRUE(cache.Add(kBase, code, kNoBreakpoints)->orderable.empty());
  using Indices = std::vector<uint32_t>;
  cache.SetMemoryModel(MemoryModel::kFence);
  EXPECT_EQ(cache.Find(kBase, 9), nullptr);
  Block* block = cache.Add(kBase, code, kNoBreakpoints);
  EXPECT_EQ(block->orderable, Indices{2});
  EXPECT_EQ(block->flags, Block::kOrderable | Block::kWrites);
  cache.SetMemoryModel(MemoryModel::kFence);
  EXPECT_EQ(cache.Find(kBase, 9), block);
  cache.SetMemoryModel(MemoryModel::kAcqRel);
  EXPECT_EQ(cache.Add(kBase, code, kNoBreakpoints)->orderable, (Indices{2, 3}));
  cache.SetMemoryModel(MemoryModel::kLoad);
  EXPECT_EQ(cache.Add(kBase, code, kNoBreakpoints)->orderable, (Indices{0, 2, 3}));
}

TEST(BlockCacheTest, DropsWhatTouchesARange) {
  const struct {
    uint64_t begin, end;
    bool dropped;
  } kCases[] = {{kBase - 8, kBase, false},       {kBase - 8, kBase + 1, true},
                {kBase + 5, kBase + 6, true},    {kBase + 11, kBase + 12, true},
                {kBase + 12, kBase + 20, false}, {0x401000, 0x402000, true},
                {0x402000, 0x403000, true},      {0x403000, 0x404000, false}};
  for (const auto& test : kCases) {
    BlockCache cache;
    cache.Add(kBase, kNops, kNoBreakpoints);
    cache.DropRange(test.begin, test.end);
    EXPECT_EQ(cache.Find(kBase, 12) == nullptr, test.dropped) << test.begin - kBase;
  }
}

TEST(BlockCacheTest, SuspectsTheBlocksOfAPage) {
  BlockCache cache;
  Block* block = cache.Add(kBase, kNops, kNoBreakpoints);
  for (uint64_t page : {uint64_t{0x401000}, uint64_t{0x402000}}) {
    block->epoch = 7;
    cache.Invalidate(0x403000);
    EXPECT_EQ(block->epoch, 7u);
    cache.Invalidate(page);
    EXPECT_EQ(block->epoch, 0u);
  }
}

TEST(BlockCacheTest, ABlockOfAnotherSizeReplaces) {
  BlockCache cache;
  cache.Add(kBase, kNops, kNoBreakpoints);
  Block* shorter = cache.Add(kBase, {0x90, 0x90}, kNoBreakpoints);
  EXPECT_EQ(cache.Find(kBase, 12), nullptr);
  EXPECT_EQ(cache.Find(kBase, 2), shorter);
  cache.Invalidate(0x402000);  // which only the longer one touched
  cache.DropRange(kBase, kBase + 1);
  EXPECT_EQ(cache.Find(kBase, 2), nullptr);
}

TEST(BlockCacheTest, DropContainingDropsJustThose) {
  BlockCache cache;
  cache.Add(kBase, kNops, kNoBreakpoints);
  cache.Add(kBase + 12, kNops, kNoBreakpoints);
  cache.DropContaining({kBase + 11});
  EXPECT_EQ(cache.Find(kBase, 12), nullptr);
  EXPECT_NE(cache.Find(kBase + 12, 12), nullptr);
}

TEST(BlockCacheTest, BlocksThatShareASlotAreBothFound) {
  BlockCache cache;
  // Equal in the bits the front table looks at.
  uint64_t other = (kBase ^ 0x10000) ^ 0x100000000;
  cache.Add(kBase, kNops, kNoBreakpoints);
  cache.Add(other, kNops, kNoBreakpoints);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cache.Find(kBase, 12)->address, kBase);
    EXPECT_EQ(cache.Find(other, 12)->address, other);
  }
}

}  // namespace
}  // namespace hindsight
