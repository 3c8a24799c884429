#include "recorder/log/process_log.h"

#include <sys/mman.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/log/fake_trace_writer.h"

namespace hindsight {
namespace {

constexpr pid_t kPid = 7;
constexpr pid_t kThread = 8;

// Regions with gaps between them, so that none is joined with its neighbour.
std::vector<MapRegion> Regions(int count, int protection = PROT_READ) {
  std::vector<MapRegion> regions;
  for (int i = 0; i < count; ++i) {
    MapRegion region;
    region.start = 0x10000 + i * 0x4000;
    region.end = region.start + 0x1000;
    region.protection = protection;
    regions.push_back(region);
  }
  return regions;
}

class ProcessLogTest : public ::testing::Test {
 protected:
  ProcessLogTest() {
    auto writer = std::make_unique<FakeTraceWriter>();
    writer_ = writer.get();
    thread_log_ = std::make_unique<ThreadLog>(writer_, kThread, &sequence_);
    Manifest manifest;
    manifest.pid = kPid;
    log_ = std::make_unique<ProcessLog>(std::move(writer), std::move(manifest), "/proc/self/root",
                                        /*max_module_bytes=*/1 << 20, nullptr);
    space_.Replace({0, ~uint64_t{0}, Regions(2)});
  }

  void ChangeMap() {
    const MapPart part = {0x10000, 0x11000, Regions(1)};
    log_->LogMapChange(part, space_, thread_log_.get(), ++count_);
  }
  std::vector<EventKind> Kinds() const {
    std::vector<EventKind> kinds;
    for (const ProcessEvent& event : writer_->events) kinds.push_back(event.kind);
    return kinds;
  }

  FakeTraceWriter* writer_ = nullptr;
  std::unique_ptr<ProcessLog> log_;
  Sequence sequence_;
  std::unique_ptr<ThreadLog> thread_log_;
  AddressSpace space_;
  uint64_t count_ = 0;
};

TEST_F(ProcessLogTest, FirstChangeIsLoggedAsAWholeMap) {
  ChangeMap();
  ChangeMap();
  ASSERT_EQ(Kinds(), (std::vector<EventKind>{EventKind::kMapChange, EventKind::kMapPart}));
  EXPECT_EQ(writer_->events[0].maps.size(), 2u);
  EXPECT_EQ(writer_->events[1].maps.size(), 1u);
  EXPECT_EQ(writer_->events[1].thread, kThread);
  EXPECT_EQ(writer_->events[1].count, 2u);
}

TEST_F(ProcessLogTest, AfterManyChangesTheWholeMapIsLoggedAgain) {
  for (int i = 0; i < 6; ++i) ChangeMap();
  // Two regions a change, two in the map: the fifth change has as many as four maps before it.
  EXPECT_EQ(Kinds()[5], EventKind::kMapChange);
  for (int i = 1; i < 5; ++i) EXPECT_EQ(Kinds()[i], EventKind::kMapPart);
}

TEST_F(ProcessLogTest, AfterASkippedChangeTheWholeMapIsLogged) {
  ChangeMap();
  log_->SkipMapChange();
  ChangeMap();
  EXPECT_EQ(Kinds()[1], EventKind::kMapChange);
}

TEST_F(ProcessLogTest, KeyframesAreNumbered) {
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(log_->WriteFullKeyframe({}, kThread, 5, MemoryMap(), false).ok());
  }
  EXPECT_EQ(log_->full_keyframes(), 2u);
  ASSERT_EQ(writer_->events.size(), 2u);
  EXPECT_EQ(writer_->events[1].kind, EventKind::kFullKeyframe);
  EXPECT_EQ(writer_->events[1].number, 2);
  EXPECT_EQ(writer_->events[1].count, 5u);
}

TEST_F(ProcessLogTest, ThreadsAreAddedUp) {
  log_->AddThread(*thread_log_, 10, {HostFeature::kAvx});
  log_->AddThread(*thread_log_, 5, {HostFeature::kAes});
  EXPECT_EQ(log_->totals().threads, 2u);
  EXPECT_EQ(log_->totals().instructions, 15u);
  ASSERT_TRUE(log_->Finish(0, 0).ok());
  EXPECT_EQ(writer_->finished->required_features, (std::vector<std::string>{"aes", "avx"}));
}

TEST_F(ProcessLogTest, AnEndedProcessHasItsExitStatus) {
  ASSERT_TRUE(log_->LogExit(9, 0x700).ok());
  EXPECT_EQ(Kinds(), std::vector<EventKind>{EventKind::kProcessExit});
  ASSERT_TRUE(log_->Finish(3, 4).ok());
  EXPECT_EQ(writer_->finished->state, TraceState::kComplete);
  EXPECT_EQ(writer_->finished->exit_status, 0x700);
  EXPECT_EQ(writer_->finished->end_sequence, 3u);
  EXPECT_EQ(writer_->finished->end_time_ns, 4u);
}

TEST_F(ProcessLogTest, AProcessThatRunsOnHasAReasonAndNoExitStatus) {
  log_->NoteUnrecordedExit(0);
  log_->NoteEndReason("has had enough");
  ASSERT_TRUE(log_->Finish(0, 0).ok());
  EXPECT_EQ(writer_->finished->exit_status, -1);
  EXPECT_EQ(writer_->finished->end_reason, "has had enough");
}

}  // namespace
}  // namespace hindsight
