// Moments, positions and steps on the timeline of several threads.

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "keyframes/timeline/timeline_threads_fixture.h"

namespace hindsight {
namespace {

TEST_F(TimelineThreadsTest, MomentsLeadThroughAllStatesOfAllThreads) {
  ASSERT_EQ(timeline_->end_moment(), Toy().end_moment());
  for (uint64_t m = 0; m < Toy().end_moment(); ++m) {
    ASSERT_EQ(timeline_->schedule().ThreadAt(m), Toy().moments()[m].thread) << m;
    ASSERT_EQ(timeline_->schedule().CountAt(Toy().moments()[m].thread, m),
              Toy().moments()[m].count);
    ASSERT_EQ(timeline_->schedule().MomentFrom(Toy().moments()[m].thread, Toy().moments()[m].count),
              m);
    ASSERT_EQ(
        timeline_->schedule().MomentTo(Toy().moments()[m].thread, Toy().moments()[m].count + 1),
        m + 1);
  }
  EXPECT_TRUE(timeline_->process().warnings().empty());
}

TEST_F(TimelineThreadsTest, ThreadsLiveFromTheCallThatMadeThemToTheirLastState) {
  for (uint64_t m = 0; m <= Toy().end_moment(); ++m) {
    std::set<int32_t> expected;
    for (const auto& [thread, start] : Toy().starts()) {
      auto end = Toy().ends().find(thread);
      if (start <= m && (end == Toy().ends().end() || m <= end->second)) expected.insert(thread);
    }
    const std::vector<int32_t> alive = timeline_->process().threads().AliveAt(m);
    ASSERT_EQ(std::set<int32_t>(alive.begin(), alive.end()), expected) << m;
  }
  EXPECT_EQ(timeline_->process().threads().all(),
            (std::vector<int32_t>{ToyThreads::kMain, ToyThreads::kSecond, ToyThreads::kThird}));
}

TEST_F(TimelineThreadsTest, SeeksShowTheTruth) {
  for (int i = 0; i < 150; ++i) {
    Seek(Between(0, Toy().end_moment()));
    ExpectTruth();
    if (HasFatalFailure()) return;
  }
}

TEST_F(TimelineThreadsTest, EveryMomentHasOnePositionAndBack) {
  Position last;
  for (uint64_t m = 0; m <= Toy().end_moment(); ++m) {
    const Position position = timeline_->process().PositionAt(m);
    auto back = timeline_->process().MomentAt(position);
    ASSERT_TRUE(back.ok()) << position << " at " << m << ": " << back.status();
    ASSERT_EQ(*back, m) << position;
    if (m > 0) {
      ASSERT_LT(last, position) << m;
    }
    last = position;
  }
}

TEST_F(TimelineThreadsTest, PositionsOfWaitingThreadsLeadToTheirStates) {
  for (int i = 0; i < 300; ++i) {
    const uint64_t m = Between(0, Toy().end_moment());
    for (int32_t thread : timeline_->process().threads().AliveAt(m)) {
      const Position position = timeline_->process().PositionAt(thread, m);
      auto back = timeline_->process().MomentAt(position);
      ASSERT_TRUE(back.ok()) << position << " of " << thread << " at " << m;
      ASSERT_LE(*back, m) << position;
      ASSERT_EQ(timeline_->schedule().CountAt(thread, *back),
                timeline_->schedule().CountAt(thread, m));
    }
  }
}

TEST_F(TimelineThreadsTest, StepsFollowTheThread) {
  for (int i = 0; i < 60; ++i) {
    Seek(Between(0, Toy().end_moment()));
    const std::vector<int32_t> threads = timeline_->threads();
    const int32_t thread = threads[Between(0, threads.size() - 1)];
    for (uint64_t k = Between(1, 80); k > 0; --k) {
      const uint64_t count = timeline_->count(thread), before = moment();
      const bool forward = Coin();
      auto moved = forward ? timeline_->StepForward(thread) : timeline_->StepBackward(thread);
      ASSERT_TRUE(moved.ok()) << moved.status();
      if (!*moved) {
        ASSERT_EQ(moment(), before);
        continue;
      }
      if (!timeline_->IsAlive(thread)) break;
      ASSERT_EQ(timeline_->count(thread), forward ? count + 1 : count - 1);
      // Forward: just after its transition. Back: just before it.
      const uint64_t made = forward ? moment() - 1 : moment();
      ASSERT_EQ(Toy().moments()[made].thread, thread);
      auto registers = timeline_->registers(thread);
      ASSERT_TRUE(registers.ok());
      ASSERT_EQ(*registers, Toy().registers(thread, timeline_->count(thread)));
    }
    ExpectTruth();
    if (HasFatalFailure()) return;
  }
}

TEST_F(TimelineThreadsTest, AWaitingThreadSeesWhatOthersHaveWrittenSince) {
  int looked = 0;
  for (uint64_t m = 1; m < Toy().end_moment() && looked < 40; ++m) {
    const int32_t thread = Toy().moments()[m - 1].thread;
    if (thread == Toy().moments()[m].thread || !timeline_->process().threads().IsAlive(thread, m)) {
      continue;
    }
    const uint64_t later = std::min(m + 20, Toy().end_moment());
    if (!timeline_->process().threads().IsAlive(thread, later)) continue;
    if (timeline_->schedule().CountAt(thread, later) != timeline_->schedule().CountAt(thread, m)) {
      continue;  // its next turn
    }
    if (Toy().moments()[later].values[0] == Toy().moments()[m].values[0]) continue;
    Seek(later);
    auto value = Read(thread, ToyThreads::kVariables[0]);
    ASSERT_TRUE(value.ok()) << value.status();
    ASSERT_EQ(*value, Toy().moments()[later].values[0]) << "at " << later;
    ++looked;
  }
  EXPECT_GE(looked, 5);
}

TEST_F(TimelineThreadsTest, AThreadThatDoesNotLiveHereIsNotFound) {
  Seek(0);
  EXPECT_TRUE(absl::IsNotFound(timeline_->registers(ToyThreads::kSecond).status()));
  EXPECT_TRUE(absl::IsNotFound(timeline_->registers(4711).status()));
  EXPECT_TRUE(absl::IsNotFound(Read(ToyThreads::kThird, ToyThreads::kShared).status()));
}

}  // namespace
}  // namespace hindsight
