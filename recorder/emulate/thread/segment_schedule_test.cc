#include "recorder/emulate/thread/segment_schedule.h"

#include <gtest/gtest.h>

namespace hindsight {
namespace {

constexpr uint64_t kInterval = 1'000'000;

TEST(SegmentScheduleTest, WithoutIntervalNoSegmentEnds) {
  SegmentSchedule schedule(0, /*adapt=*/true);
  schedule.Begin(5, 1000);
  EXPECT_EQ(schedule.next(), ~uint64_t{0});
}

TEST(SegmentScheduleTest, SegmentsHaveTheIntervalAskedFor) {
  SegmentSchedule schedule(kInterval, /*adapt=*/false);
  schedule.Begin(7, 1'000'000);
  EXPECT_EQ(schedule.next(), 7 + kInterval);
}

TEST(SegmentScheduleTest, SegmentsAreLongerAfterManyImports) {
  SegmentSchedule schedule(kInterval, /*adapt=*/true);
  schedule.Begin(0, 0);
  EXPECT_EQ(schedule.next(), kInterval);
  schedule.Begin(0, 50);
  EXPECT_EQ(schedule.next(), 4 * kInterval);
  schedule.Begin(0, 1'000'000);
  EXPECT_EQ(schedule.next(), 16 * kInterval);
}

}  // namespace
}  // namespace hindsight
