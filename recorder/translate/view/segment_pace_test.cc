#include "recorder/translate/view/segment_pace.h"

#include <gtest/gtest.h>

namespace hindsight {
namespace {

constexpr uint64_t kBlock = 64;

TEST(SegmentPaceTest, WithoutAnIntervalNoSegmentEnds) {
  SegmentPace pace;
  pace.Begin(7, 0);
  EXPECT_EQ(pace.start(), 7u);
  EXPECT_FALSE(pace.IsDue(1'000'000'000, kBlock, 0));
}

TEST(SegmentPaceTest, ASegmentEndsBeforeABlockThatMightReachOverItsEnd) {
  SegmentPace pace;
  pace.Begin(100, 1000);
  EXPECT_EQ(pace.next(), 1100u);
  EXPECT_FALSE(pace.IsDue(1100 - kBlock - 1, kBlock, 0));
  EXPECT_TRUE(pace.IsDue(1100 - kBlock, kBlock, 0));
}

TEST(SegmentPaceTest, ASegmentIsAsLongAsItIsWorth) {
  SegmentPace pace;
  pace.Begin(100, 1000);
  EXPECT_FALSE(pace.IsDue(1100, kBlock, 5000));
  EXPECT_EQ(pace.next(), 5100u);
  EXPECT_TRUE(pace.IsDue(5100, kBlock, 5000));
}

TEST(SegmentPaceTest, PagesOfAViewAreWorthTwiceAsMuchUpToALimit) {
  EXPECT_EQ(SegmentPace::Worth(1000, 100'000, false), 100'000'000u);
  EXPECT_EQ(SegmentPace::Worth(1000, 100'000, true), 200'000'000u);
  EXPECT_EQ(SegmentPace::Worth(3000, 100'000, true), 400'000'000u);
  EXPECT_EQ(SegmentPace::Worth(9000, 100'000, true), 900'000'000u);
}

}  // namespace
}  // namespace hindsight
