#include "recorder/translate/view/file_ranges.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

using Found = std::vector<std::pair<uint64_t, uint64_t>>;

Found RangesOf(const FileRanges& ranges, uint64_t device, uint64_t inode) {
  Found found;
  ranges.ForEach(device, inode,
                 [&found](uint64_t start, uint64_t end) { found.emplace_back(start, end); });
  return found;
}

TEST(FileRangesTest, AFileHasTheRangesThatWereMappedOfIt) {
  FileRanges ranges;
  EXPECT_TRUE(ranges.Add({0x1000, 0x3000, 8, 1}));
  EXPECT_TRUE(ranges.Add({0x5000, 0x6000, 8, 2}));
  EXPECT_TRUE(ranges.Add({0x8000, 0x9000, 8, 1}));
  EXPECT_EQ(RangesOf(ranges, 8, 1), (Found{{0x1000, 0x3000}, {0x8000, 0x9000}}));
  EXPECT_EQ(RangesOf(ranges, 9, 1), Found());
}

TEST(FileRangesTest, WhatIsUnmappedInPartStays) {
  FileRanges ranges;
  ranges.Add({0x1000, 0x3000, 8, 1});
  ranges.Remove(0x1000, 0x2000);
  EXPECT_EQ(RangesOf(ranges, 8, 1).size(), 1u);
  EXPECT_TRUE(ranges.Touches(0x2fff, 0x4000));
  EXPECT_FALSE(ranges.Touches(0x3000, 0x4000));
  ranges.Remove(0x1000, 0x3000);
  EXPECT_EQ(RangesOf(ranges, 8, 1).size(), 0u);
}

TEST(FileRangesTest, ThereIsRoomForSoMany) {
  FileRanges ranges;
  for (uint64_t i = 1; i <= FileRanges::kMost; ++i) {
    EXPECT_TRUE(ranges.Add({i << 12, (i + 1) << 12, 8, i}));
  }
  EXPECT_FALSE(ranges.Add({0x100000, 0x101000, 8, 1}));
  ranges.Remove(0x1000, 0x2000);
  EXPECT_TRUE(ranges.Add({0x100000, 0x101000, 8, 1}));
}

}  // namespace
}  // namespace hindsight
