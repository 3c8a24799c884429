#include "recorder/translate/view/shared_ranges.h"

#include <gtest/gtest.h>

namespace hindsight {
namespace {

TEST(SharedRangesTest, HasWhatWasAdded) {
  SharedRanges ranges;
  EXPECT_FALSE(ranges.any());
  ranges.Add(0x1000, 0x3000);
  ranges.Add(0x5000, 0x6000);
  EXPECT_TRUE(ranges.any());
  EXPECT_FALSE(ranges.Contains(0xfff));
  EXPECT_TRUE(ranges.Contains(0x1000));
  EXPECT_TRUE(ranges.Contains(0x2fff));
  EXPECT_FALSE(ranges.Contains(0x3000));
  EXPECT_TRUE(ranges.Contains(0x5800));
}

TEST(SharedRangesTest, WhatIsRemovedAsAWholeIsGone) {
  SharedRanges ranges;
  ranges.Add(0x1000, 0x3000);
  ranges.Remove(0x1000, 0x2000);
  EXPECT_TRUE(ranges.Contains(0x1000)) << "a part of it is still there";
  ranges.Remove(0x1000, 0x3000);
  EXPECT_FALSE(ranges.Contains(0x1000));
  EXPECT_FALSE(ranges.any());
}

TEST(SharedRangesTest, FullItTakesNoMoreUntilSomeAreRemoved) {
  SharedRanges ranges;
  for (uint64_t i = 1; i <= SharedRanges::kMost; ++i) ranges.Add(i << 12, (i + 1) << 12);
  ranges.Add(0x100000, 0x101000);
  EXPECT_FALSE(ranges.Contains(0x100000));
  ranges.Remove(0x1000, 0x2000);
  ranges.Add(0x100000, 0x101000);
  EXPECT_TRUE(ranges.Contains(0x100000));
}

}  // namespace
}  // namespace hindsight
