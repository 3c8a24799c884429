#include "keyframes/replay/checkpoint_pace.h"

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(CheckpointPace, NoneIsDueUnlessMemoryIsGranted) {
  CheckpointPace pace;
  pace.Begin();
  pace.Spend(uint64_t{1} << 40);
  EXPECT_FALSE(pace.IsDue());
  EXPECT_EQ(pace.StatesToNext(), ~uint64_t{0});
  EXPECT_GT(pace.limit_bytes(), 0u);
}

TEST(CheckpointPace, OneIsDueAfterAnInterval) {
  CheckpointPace pace;
  pace.set_max_bytes(1 << 20);
  pace.Begin();
  const uint64_t interval = pace.StatesToNext();
  pace.Spend(interval - 1);
  EXPECT_FALSE(pace.IsDue());
  EXPECT_EQ(pace.StatesToNext(), 1u);
  pace.Spend(5);
  EXPECT_TRUE(pace.IsDue());
  EXPECT_EQ(pace.StatesToNext(), 1u);
  pace.AtCheckpoint();
  EXPECT_FALSE(pace.IsDue());
  EXPECT_EQ(pace.StatesToNext(), interval);
}

TEST(CheckpointPace, ManyWrittenPagesMakeTheIntervalLonger) {
  CheckpointPace pace;
  pace.set_max_bytes(1 << 20);
  pace.Begin();
  const uint64_t interval = pace.StatesToNext();
  pace.SetInterval(/*dirty_pages=*/1);
  EXPECT_EQ(pace.StatesToNext(), interval);
  pace.SetInterval(/*dirty_pages=*/1'000'000);
  EXPECT_GT(pace.StatesToNext(), interval);
}

TEST(CheckpointPace, ShortWaysAreNotWorthACheckpoint) {
  CheckpointPace pace;
  pace.Begin();
  pace.Spend(CheckpointPace::kLeavingStates);
  EXPECT_FALSE(pace.IsWorthOne(0));
  pace.Spend(1);
  EXPECT_TRUE(pace.IsWorthOne(0));
  EXPECT_FALSE(pace.IsWorthOne(/*dirty_pages=*/100));
}

}  // namespace
}  // namespace hindsight
