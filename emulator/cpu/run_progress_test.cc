#include "emulator/cpu/run_progress.h"

#include <gtest/gtest.h>

#include "emulator/cpu/block_filter.h"

namespace hindsight {
namespace {

Block At(uint64_t address, uint32_t size, uint32_t instructions) {
  Block block;
  block.address = address;
  block.size = size;
  block.instructions = instructions;
  return block;
}

TEST(RunProgressTest, ABlockIsCountedWhenItIsEntered) {
  RunProgress progress;
  progress.set_count(10);
  progress.StartEngine(100);
  const Block block = At(0x1000, 8, 3);
  progress.Enter(block);
  EXPECT_EQ(progress.count(), 13u);
  EXPECT_EQ(progress.block_start_count(), 10u);
  EXPECT_TRUE(progress.IsIn(block));
}

TEST(RunProgressTest, AnExactRunHasNoRoomForItsLastBlock) {
  RunProgress progress;
  progress.StartEngine(3);
  EXPECT_FALSE(progress.HasRoomFor(At(0x1000, 8, 3)));
  EXPECT_TRUE(progress.HasRoomFor(At(0x1000, 8, 2)));
  progress.set_exact(false);
  EXPECT_TRUE(progress.HasRoomFor(At(0x1000, 8, 3)));
}

TEST(RunProgressTest, SettingTheCountIsNoWork) {
  RunProgress progress;
  progress.Advance(5);
  progress.set_count(1000);
  progress.Advance(2);
  EXPECT_EQ(progress.work(), 7u);
  progress.set_count(0);
  EXPECT_EQ(progress.work(), 7u);
}

TEST(RunProgressTest, AStopRequestHoldsForOneRun) {
  RunProgress progress;
  progress.RequestStop();
  progress.StartEngine(100);
  EXPECT_FALSE(progress.HasRoomFor(At(0x1000, 1, 1)));
  EXPECT_TRUE(progress.TakeStopRequest());
  EXPECT_FALSE(progress.TakeStopRequest());
  progress.StartEngine(100);
  EXPECT_TRUE(progress.HasRoomFor(At(0x1000, 1, 1)));
}

TEST(RunProgressTest, PagesOfTheBlock) {
  RunProgress progress;
  EXPECT_FALSE(progress.IsOnPage(0));
  progress.Enter(At(0x1ffc, 8, 2));
  EXPECT_TRUE(progress.IsOnPage(0x1000));
  EXPECT_TRUE(progress.IsOnPage(0x2000));
  EXPECT_FALSE(progress.IsOnPage(0x3000));
  progress.Enter(At(0x1ffc, 4, 1));
  EXPECT_FALSE(progress.IsOnPage(0x2000));
  progress.LeaveBlock();
  EXPECT_FALSE(progress.IsOnPage(0x1000));
}

TEST(BlockFilterTest, BreakpointsStopARunOrAreCounted) {
  BlockFilter filter;
  Block block;
  block.flags = Block::kBreakpoint;
  filter.Start({});
  EXPECT_NE(filter.StopsAt(block), 0);
  filter.Start({.logs_hits = true});
  EXPECT_EQ(filter.StopsAt(block), 0);
  EXPECT_FALSE(filter.OnlyCounts(block));
}

TEST(BlockFilterTest, FloatingPointFollowsTheControlWords) {
  BlockFilter filter;
  Block block;
  block.flags = Block::kFloating;
  filter.Start({});
  EXPECT_TRUE(filter.OnlyCounts(block));
  filter.SetFloatsOutside(true);
  EXPECT_EQ(filter.StopsAt(block), Block::kFloating);
  filter.SetFloatsOutside(false);
  EXPECT_TRUE(filter.OnlyCounts(block));
}

TEST(BlockFilterTest, OrderableInstructionsNeedWorkOnlyIfLogged) {
  BlockFilter filter;
  Block block;
  block.flags = Block::kOrderable;
  filter.Start({});
  EXPECT_TRUE(filter.OnlyCounts(block));
  filter.Start({.logs_orderable = true});
  EXPECT_FALSE(filter.OnlyCounts(block));
  EXPECT_EQ(filter.StopsAt(block), 0);
}

}  // namespace
}  // namespace hindsight
