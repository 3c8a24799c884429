#include "keyframes/state/schedule.h"

#include <random>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"

namespace hindsight {
namespace {

// A small language: threads with their ranges of counts, and slices as they are in a trace.
class ScheduleTest : public testing::Test {
 protected:
  void Thread(int32_t thread, uint64_t begin, uint64_t end, uint64_t sequence = 0) {
    threads_.push_back({thread, begin, end, sequence});
  }
  void SliceOf(int32_t thread, uint64_t sequence, uint64_t count) {
    events_.push_back(
        {.kind = EventKind::kSlice, .sequence = sequence, .thread = thread, .count = count});
  }
  Schedule Create() {
    std::vector<const ProcessEvent*> events;
    for (const ProcessEvent& event : events_) events.push_back(&event);
    return Schedule::Create(threads_, events, &warnings_);
  }
  // Every moment but the last makes one transition, and every state of every thread is passed.
  void ExpectWhole(const Schedule& schedule) {
    uint64_t transitions = 0;
    for (const auto& range : threads_) transitions += range.end_count - range.begin_count;
    ASSERT_EQ(schedule.end_moment(), transitions);
    for (uint64_t m = 0; m < schedule.end_moment(); ++m) {
      const int32_t thread = schedule.ThreadAt(m);
      const uint64_t count = schedule.CountAt(thread, m);
      ASSERT_EQ(schedule.CountAt(thread, m + 1), count + 1) << m;
      ASSERT_EQ(schedule.MomentFrom(thread, count), m);
      ASSERT_EQ(schedule.MomentTo(thread, count + 1), m + 1);
      for (const auto& range : threads_) {
        if (range.thread == thread) continue;
        ASSERT_EQ(schedule.CountAt(range.thread, m), schedule.CountAt(range.thread, m + 1));
      }
    }
    for (const auto& range : threads_) {
      ASSERT_EQ(schedule.CountAt(range.thread, schedule.end_moment()), range.end_count);
    }
  }

  std::vector<Schedule::ThreadRange> threads_;
  std::vector<ProcessEvent> events_;
  std::vector<std::string> warnings_;
};

TEST_F(ScheduleTest, OneThreadNeedsNoSlices) {
  Thread(7, 1000, 1500);
  const Schedule schedule = Create();
  EXPECT_EQ(schedule.end_moment(), 500);
  EXPECT_EQ(schedule.CountAt(7, 123), 1123);
  EXPECT_EQ(schedule.MomentFrom(7, 1123), 123);
  ExpectWhole(schedule);
  EXPECT_TRUE(warnings_.empty());
}

// Of what it did before, the places among the slices of others are left.
TEST_F(ScheduleTest, EarlierSlicesOfAThreadThatBeginsLateHaveNoLength) {
  Thread(1, 0, 100);
  Thread(2, 40, 90, 5);
  threads_.back().begins_late = true;
  SliceOf(2, 6, 0);
  SliceOf(1, 10, 60);
  SliceOf(2, 12, 30);  // its part begins in this one
  SliceOf(1, 20, 70);
  SliceOf(2, 22, 50);
  const Schedule schedule = Create();
  ExpectWhole(schedule);
  EXPECT_EQ(schedule.MomentTo(2, 40), 70);
  EXPECT_EQ(schedule.CountAt(2, 0), 40);
  const Slice& lost = schedule.slices()[schedule.SliceOfSequence(7)];
  EXPECT_EQ(lost.thread, 2);
  EXPECT_EQ(lost.moment, 60);
  EXPECT_EQ(lost.length, 0);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ScheduleTest, SlicesFollowTheirNumbers) {
  Thread(1, 0, 100);
  Thread(2, 0, 50, 5);
  SliceOf(2, 6, 0);
  SliceOf(1, 10, 60);
  SliceOf(2, 12, 30);
  const Schedule schedule = Create();
  ExpectWhole(schedule);
  EXPECT_EQ(schedule.ThreadAt(59), 1);  // before its first slice the first thread runs
  EXPECT_EQ(schedule.ThreadAt(60), 2);
  EXPECT_EQ(schedule.ThreadAt(90), 1);
  EXPECT_EQ(schedule.ThreadAt(130), 2);
  EXPECT_EQ(schedule.ThreadAt(150), 2);  // the end: who made the last transition
  EXPECT_EQ(schedule.CountAt(2, 10), 0);
  EXPECT_EQ(schedule.CountAt(2, 100), 30);
  // The state a slice ends in is stood in until the next one goes on from it.
  EXPECT_EQ(schedule.MomentTo(1, 60), 60);
  EXPECT_EQ(schedule.MomentFrom(1, 60), 90);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(ScheduleTest, SlicesOfNoLengthAreNotStoodIn) {
  Thread(1, 0, 10);
  Thread(2, 0, 10, 2);
  SliceOf(1, 1, 0);
  SliceOf(2, 3, 0);
  SliceOf(1, 4, 5);
  SliceOf(2, 5, 10);
  SliceOf(1, 6, 5);
  const Schedule schedule = Create();
  ExpectWhole(schedule);
  EXPECT_EQ(schedule.ThreadAt(15), 1);
  EXPECT_EQ(schedule.MomentFrom(1, 5), 15);
  EXPECT_EQ(schedule.MomentTo(1, 5), 5);
}

TEST_F(ScheduleTest, OfSeveralTurnsInOneStateTheRightOneIsFound) {
  Thread(1, 0, 50);
  Thread(2, 0, 50, 2);
  SliceOf(2, 2, 0);
  SliceOf(1, 3, 20);
  SliceOf(2, 4, 30);
  SliceOf(1, 5, 20);
  SliceOf(2, 6, 40);
  const Schedule schedule = Create();
  const auto number = [&](int32_t thread, uint64_t count, uint8_t turn) {
    return schedule.slices()[schedule.TurnIn(thread, count, turn)].sequence;
  };
  EXPECT_EQ(number(1, 20, 1), 3u);
  EXPECT_EQ(number(1, 20, 2), 5u);
  EXPECT_EQ(number(1, 20, 255), 5u);
  EXPECT_EQ(number(1, 20, 0), 0u) << "the one before";
  EXPECT_EQ(number(1, 25, 1), 5u) << "none begins there";
  EXPECT_EQ(number(1, 25, 0), 5u);
  EXPECT_EQ(number(1, 10, 1), 0u);
  EXPECT_EQ(number(1, 0, 0), 0u) << "there is none before";
  EXPECT_EQ(number(2, 30, 1), 4u);
}

TEST_F(ScheduleTest, AThreadWithoutSlicesRunsWhereItStarts) {
  Thread(1, 0, 100);
  Thread(2, 20, 30, 5);
  SliceOf(1, 1, 0);
  SliceOf(1, 9, 40);
  const Schedule schedule = Create();
  ExpectWhole(schedule);
  EXPECT_EQ(schedule.ThreadAt(40), 2);
  EXPECT_EQ(schedule.ThreadAt(50), 1);
}

TEST_F(ScheduleTest, EventsBehindWhatCanBeReplayedAreCutOff) {
  Thread(1, 0, 100);
  Thread(2, 0, 10, 2);
  SliceOf(2, 3, 0);
  SliceOf(1, 4, 50);
  SliceOf(2, 5, 4000);
  SliceOf(1, 6, 9000);
  ExpectWhole(Create());
  EXPECT_TRUE(warnings_.empty());  // an interrupted recording is no damage
}

TEST_F(ScheduleTest, WhatDoesNotFitIsMendedAndToldOf) {
  Thread(1, 0, 100);
  Thread(2, 0, 50, 2);
  SliceOf(1, 9, 70);
  SliceOf(2, 8, 20);
  SliceOf(1, 10, 30);
  SliceOf(3, 11, 5);
  ExpectWhole(Create());
  EXPECT_EQ(warnings_.size(), 3);
}

TEST_F(ScheduleTest, NonsenseGivesSomeOrderAlwaysTheSame) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    threads_.clear();
    events_.clear();
    for (int32_t thread = 1; thread <= 1 + static_cast<int32_t>(random() % 4); ++thread) {
      const uint64_t begin = random() % 50;
      Thread(thread, begin, begin + random() % 60, random() % 40);
    }
    for (uint32_t i = random() % 30; i > 0; --i) {
      SliceOf(1 + static_cast<int32_t>(random() % 5), random() % 60, random() % 120);
    }
    const Schedule schedule = Create();
    ExpectWhole(schedule);
    if (HasFatalFailure()) return;
    const Schedule again = Create();
    for (uint64_t m = 0; m <= schedule.end_moment(); ++m) {
      ASSERT_EQ(schedule.ThreadAt(m), again.ThreadAt(m));
    }
  }
}

}  // namespace
}  // namespace hindsight
