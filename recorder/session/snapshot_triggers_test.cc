#include "recorder/session/snapshot_triggers.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace hindsight {
namespace {

constexpr uint64_t kMs = 1'000'000;

std::unique_ptr<SnapshotTriggers> Every10Ms(uint64_t most = 0) {
  CaptureConfiguration capture;
  capture.every = absl::Milliseconds(10);
  capture.max_snapshots = most;
  return *SnapshotTriggers::Parse(capture);
}

TEST(SnapshotTriggersTest, TheTimerIsDueOnceForEachProcess) {
  const auto triggers = Every10Ms();
  SnapshotTriggers::Seen first = triggers->Begin(0, 0), second = triggers->Begin(12 * kMs, 0);
  EXPECT_FALSE(triggers->Due(9 * kMs, 0, &first).has_value());
  const auto due = triggers->Due(12 * kMs, 0, &first);
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->trigger, kTimerTrigger);
  EXPECT_FALSE(triggers->Due(13 * kMs, 0, &first).has_value());
  EXPECT_FALSE(triggers->Due(13 * kMs, 0, &second).has_value());
  // What was missed is not made up for.
  EXPECT_TRUE(triggers->Due(55 * kMs, 0, &second).has_value());
  EXPECT_FALSE(triggers->Due(56 * kMs, 0, &second).has_value());
}

TEST(SnapshotTriggersTest, RequestsCountFromAProcesssBeginning) {
  const auto triggers = *SnapshotTriggers::Parse({});
  SnapshotTriggers::Seen seen = triggers->Begin(0, 3);
  EXPECT_FALSE(triggers->Due(1000 * kMs, 3, &seen).has_value());
  const auto due = triggers->Due(1000 * kMs, 4, &seen);
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->trigger, kOutsideTrigger);
  EXPECT_FALSE(triggers->Due(1000 * kMs, 4, &seen).has_value());
}

TEST(SnapshotTriggersTest, NoneIsDueWhenThereAreEnough) {
  const auto triggers = Every10Ms(/*most=*/1);
  SnapshotTriggers::Seen seen = triggers->Begin(0, 0);
  EXPECT_FALSE(triggers->IsEnough());
  triggers->NoteTaken();
  EXPECT_TRUE(triggers->IsEnough());
  EXPECT_FALSE(triggers->Due(12 * kMs, 1, &seen).has_value());
}

TEST(SnapshotTriggersTest, SignalsAndPlaces) {
  CaptureConfiguration capture;
  capture.signals = {11, 64};
  const auto triggers = *SnapshotTriggers::Parse(capture);
  EXPECT_TRUE(triggers->IsWanted(11));
  EXPECT_TRUE(triggers->IsWanted(64));
  EXPECT_FALSE(triggers->IsWanted(1));
  EXPECT_FALSE(triggers->has_places());
  capture.functions = {"work", "0x"};
  EXPECT_FALSE(SnapshotTriggers::Parse(capture).ok());
}

}  // namespace
}  // namespace hindsight
