#include "recorder/emulate/thread/check_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hindsight {
namespace {

constexpr uint64_t kNever = ~uint64_t{0};

TEST(CheckScheduleTest, NoneUnlessAskedFor) {
  CheckSchedule schedule(0);
  schedule.Schedule(0);
  EXPECT_EQ(schedule.next(), kNever);
}

TEST(CheckScheduleTest, NextIsAfterThePresentState) {
  CheckSchedule schedule(100);
  EXPECT_EQ(schedule.next(), kNever);
  for (uint64_t count = 0; count < 100'000; count = schedule.next()) {
    schedule.Schedule(count);
    ASSERT_GT(schedule.next(), count);
  }
}

TEST(CheckScheduleTest, RateIsThatAskedForOnceMuchHasRun) {
  CheckSchedule schedule(100);
  uint64_t count = 10'000'000;
  constexpr int kChecks = 10'000;
  const uint64_t first = count;
  for (int i = 0; i < kChecks; ++i) {
    schedule.Schedule(count);
    count = schedule.next();
  }
  EXPECT_NEAR(static_cast<double>(count - first) / kChecks, 10'000, 500);
}

TEST(CheckScheduleTest, ChecksAreCloserWhereCodeIsMetFirst) {
  CheckSchedule schedule(1);
  schedule.Schedule(0);
  EXPECT_LE(schedule.next(), 2001u);
}

TEST(CheckScheduleTest, SameInEachRecording) {
  CheckSchedule a(50), b(50);
  a.Schedule(7);
  b.Schedule(7);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_EQ(a.PickLength(), b.PickLength());
}

TEST(CheckScheduleTest, LengthsVaryAndAreNeverNothing) {
  CheckSchedule schedule(50);
  uint64_t shortest = kNever, longest = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t length = schedule.PickLength();
    shortest = std::min(shortest, length);
    longest = std::max(longest, length);
  }
  EXPECT_EQ(shortest, 1u);
  EXPECT_EQ(longest, 24u);
}

}  // namespace
}  // namespace hindsight
