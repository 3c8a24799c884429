#include "emulator/cpu/orderable_log.h"

#include <gtest/gtest.h>

namespace hindsight {
namespace {

using Counts = std::vector<uint64_t>;

TEST(OrderableLogTest, LogsInstructionsAndBlocks) {
  Counts counts;
  OrderableLog log;
  log.Start(MemoryModel::kFence, &counts);
  log.Add(3);
  log.AddBlock(10, {0, 2});
  EXPECT_EQ(counts, Counts({3, 10, 12}));
}

TEST(OrderableLogTest, GoingBackDropsWhatComesAfter) {
  Counts counts = {1};
  OrderableLog log;
  log.Start(MemoryModel::kFence, &counts);
  log.AddBlock(4, {0, 1, 2});
  log.DropFrom(5);
  EXPECT_EQ(counts, Counts({1, 4}));
}

TEST(OrderableLogTest, StoppedItKeepsTheModelAndLeavesTheCounts) {
  Counts counts = {7};
  OrderableLog log;
  log.Start(MemoryModel::kLoad, &counts);
  log.Stop();
  EXPECT_FALSE(log.active());
  log.DropFrom(0);
  EXPECT_EQ(counts, Counts({7}));
  EXPECT_EQ(log.model(), MemoryModel::kLoad);
}

}  // namespace
}  // namespace hindsight
