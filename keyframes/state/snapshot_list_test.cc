#include "keyframes/state/snapshot_list.h"

#include <gtest/gtest.h>

#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

constexpr EventKind kSnapshot{17};

// Three snapshots; the event of the third was lost.
class SnapshotListTest : public testing::Test {
 protected:
  SnapshotListTest() {
    trace_.Keyframe(1, {{0x1000, 1}});
    trace_.Event(
        {.kind = kSnapshot,
         .thread = kThread,
         .count = 1,
         .number = 1,
         .arguments = {1'500'000'000, 2, static_cast<uint64_t>(int64_t{-3}), 4, 5, 6, 7, 8},
         .text = "label=after = init\nphase=two\nempty=\n"});
    trace_.Keyframe(2, {{0x1000, 2}});
    trace_.Event({.kind = kSnapshot, .count = 2, .number = 2, .arguments = {2'000'000'000, 77}});
    trace_.Keyframe(3, {{0x1000, 3}});
    trace_.Finish();
  }

  TestTrace trace_;
};

TEST_F(SnapshotListTest, DescribesEachByItsEvent) {
  const OpenTrace trace = trace_.Read();
  EXPECT_TRUE(IsSnapshotTrace(*trace));
  const std::vector<SnapshotInfo> snapshots = ListSnapshots(*trace);
  ASSERT_EQ(snapshots.size(), 3u);
  const SnapshotInfo& first = snapshots[0];
  EXPECT_EQ(first.number, 1u);
  EXPECT_EQ(first.time_ns, 1'500'000'000u);
  EXPECT_EQ(TriggerName(first.trigger), "point");
  EXPECT_EQ(first.level, -3);
  EXPECT_EQ(first.class_number, 4u);
  EXPECT_EQ(first.id, 5u);
  EXPECT_EQ(first.skew_ns, 6u);
  EXPECT_EQ(first.stop_ns, 7u);
  EXPECT_EQ(first.stored_bytes, 8u);
  EXPECT_EQ(first.thread, kThread);
  EXPECT_EQ(first.label, "after = init");
  const std::vector<std::pair<std::string, std::string>> attributes = {{"phase", "two"},
                                                                       {"empty", ""}};
  EXPECT_EQ(first.attributes, attributes);
  EXPECT_EQ(SnapshotText(first),
            "1: 1.500000 s, thread 1, point -3/4/5, after = init, phase=two, empty=");
  EXPECT_EQ(TriggerName(snapshots[1].trigger), "77");
  EXPECT_EQ(snapshots[1].stop_ns, 0u);
  EXPECT_EQ(snapshots[2].number, 3u);
  EXPECT_EQ(snapshots[2].time_ns, 0u);
  for (const SnapshotInfo& snapshot : snapshots) {
    EXPECT_EQ(snapshot.keyframe->number(), snapshot.number);
  }
}

TEST_F(SnapshotListTest, FindsThemAsUsersWriteThem) {
  const OpenTrace trace = trace_.Read();
  const std::vector<SnapshotInfo> snapshots = ListSnapshots(*trace);
  EXPECT_EQ(FindSnapshot(snapshots, "2").value_or(9), 1u);
  EXPECT_EQ(FindSnapshot(snapshots, " snapshot 3 ").value_or(9), 2u);
  EXPECT_EQ(FindSnapshot(snapshots, "start").value_or(9), 0u);
  EXPECT_EQ(FindSnapshot(snapshots, "end").value_or(9), 2u);
  for (const char* none : {"4", "0", "", "snapshot", "-1", "1A:3F", "next"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(FindSnapshot(snapshots, none).status())) << none;
  }
  EXPECT_FALSE(FindSnapshot({}, "start").ok());
}

}  // namespace
}  // namespace hindsight
