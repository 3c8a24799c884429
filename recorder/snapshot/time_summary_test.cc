#include "recorder/snapshot/time_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace hindsight {
namespace {

TEST(TimeSummaryTest, HasNothingAtFirst) {
  const TimeSummary none;
  EXPECT_EQ(none.count(), 0u);
  EXPECT_EQ(none.MedianNs(), 0u);
  EXPECT_EQ(none.worst_ns(), 0u);
}

TEST(TimeSummaryTest, OneTimeIsTheMedianAndTheWorst) {
  for (const uint64_t ns : {uint64_t{0}, uint64_t{31}, uint64_t{32}, uint64_t{1'234'567},
                            uint64_t{1} << 63, ~uint64_t{0}}) {
    TimeSummary one;
    one.Add(ns);
    EXPECT_EQ(one.worst_ns(), ns);
    EXPECT_LE(one.MedianNs(), ns);
    EXPECT_GE(one.MedianNs(), ns - ns / 32);
  }
}

TEST(TimeSummaryTest, TheMedianIsThatOfAllTimesWithin3Percent) {
  std::mt19937_64 random(4);
  TimeSummary summary;
  std::vector<uint64_t> all;
  for (int i = 0; i < 10'001; ++i) {
    const uint64_t ns = random() >> (random() % 40);
    summary.Add(ns);
    all.push_back(ns);
  }
  std::sort(all.begin(), all.end());
  const auto median = static_cast<double>(all[all.size() / 2]);
  EXPECT_NEAR(static_cast<double>(summary.MedianNs()), median, median * 0.03);
  EXPECT_EQ(summary.worst_ns(), all.back());
  EXPECT_EQ(summary.count(), all.size());
}

}  // namespace
}  // namespace hindsight
