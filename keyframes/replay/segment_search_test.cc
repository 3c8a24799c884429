#include "keyframes/replay/segment_search.h"

#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"

namespace hindsight {
namespace {

class SegmentSearchTest : public testing::Test {
 protected:
  SegmentSearchTest() : search_(toy_.trace(), 3) {
    request_.thread = ToyRecording::kThread;
    request_.from = toy_.trace()->segments(toy_.trace()->threads().front()).back().number;
    request_.breakpoints = &breakpoints_;
    request_.watchpoints = &watchpoints_;
  }

  ToyRecording toy_;
  SegmentSearch search_;
  absl::flat_hash_set<uint64_t> breakpoints_ = {ToyRecording::SyscallInstruction()};
  std::vector<Watchpoint> watchpoints_ = {{.address = ToyRecording::kSum, .length = 8}};
  SegmentSearch::Request request_;
};

TEST_F(SegmentSearchTest, ResultsComeFromTheNewestToTheOldest) {
  uint64_t expected = request_.from;
  auto status = search_.Run(request_, [&](const SegmentHits& hits) -> absl::StatusOr<bool> {
    EXPECT_EQ(hits.number, expected--);
    return false;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(expected, ~uint64_t{0});
}

TEST_F(SegmentSearchTest, OrFromTheOldestToTheNewest) {
  std::swap(request_.from, request_.to);
  uint64_t expected = 0;
  auto status = search_.Run(request_, [&](const SegmentHits& hits) -> absl::StatusOr<bool> {
    EXPECT_EQ(hits.number, expected++);
    return false;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(expected, request_.to + 1);
}

TEST_F(SegmentSearchTest, EachTellsItsLastHitAndItsEnd) {
  auto status = search_.Run(request_, [&](const SegmentHits& hits) -> absl::StatusOr<bool> {
    uint64_t last = 0;
    for (uint64_t call : toy_.syscall_counts()) {
      if (call >= hits.first_count && call < hits.end_count) last = call;
    }
    EXPECT_EQ(hits.trace.cpu.last_breakpoint_count, last);
    EXPECT_EQ(hits.endings.size(), 1);
    uint64_t sum = 0;
    std::memcpy(&sum, hits.endings.at(0).bytes.data(), 8);
    EXPECT_EQ(sum, toy_.at(hits.end_count).sum);
    return false;
  });
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SegmentSearchTest, ItEndsWhenTheTakerHasEnough) {
  int taken = 0;
  auto status = search_.Run(
      request_, [&](const SegmentHits&) -> absl::StatusOr<bool> { return ++taken == 2; });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(taken, 2);
}

TEST_F(SegmentSearchTest, AnInterruptCancels) {
  std::atomic<bool> interrupt{false};
  request_.interrupt = &interrupt;
  auto status = search_.Run(request_, [&](const SegmentHits&) -> absl::StatusOr<bool> {
    interrupt = true;
    return false;
  });
  EXPECT_TRUE(status.ok() || absl::IsCancelled(status));
}

}  // namespace
}  // namespace hindsight
