#include "recorder/emulate/thread/turn_clock.h"

#include <gtest/gtest.h>

namespace hindsight {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kQuantum = 10'000'000;
constexpr uint64_t kNoLimit = ~uint64_t{0};

bool Nobody() { return false; }
bool Somebody() { return true; }
bool NotAsked() {
  ADD_FAILURE() << "asking costs a system call";
  return false;
}

class TurnClockTest : public testing::Test {
 protected:
  uint64_t ShortLeg(uint64_t count = 0) const {
    return clock_.NextLeg(count, kNoLimit, true, true, Nobody).limit - count;
  }

  TurnScheduler scheduler_{1, /*chaos=*/false};
  TurnClock clock_{&scheduler_, kQuantum};
};

TEST_F(TurnClockTest, ThreadAloneRunsForItsQuantumWhateverTheTime) {
  clock_.Begin(0, {.count = 100, .ns = 0, .alone = true});
  EXPECT_FALSE(clock_.IsOver({.count = 200, .ns = 40 * kMs, .alone = true}, false, NotAsked));
  EXPECT_TRUE(
      clock_.IsOver({.count = 100 + kQuantum, .ns = 40 * kMs, .alone = true}, false, Somebody));
}

TEST_F(TurnClockTest, TurnThatNobodyWaitsForIsExtended) {
  clock_.Begin(0, {.count = 0, .ns = 0, .alone = false});
  const uint64_t late = 2 * TurnClock::kSharedQuantum;
  EXPECT_FALSE(clock_.IsOver({.count = late, .ns = kMs / 2}, false, Nobody));
  EXPECT_FALSE(clock_.IsOver({.count = late + 1, .ns = kMs / 2}, false, NotAsked));
}

TEST_F(TurnClockTest, EvenThatEndsAfterFiftyMilliseconds) {
  clock_.Begin(0, {.count = 0, .ns = 0, .alone = false});
  EXPECT_TRUE(clock_.IsOver({.count = kQuantum, .ns = 50 * kMs}, false, Nobody));
}

TEST_F(TurnClockTest, TurnWhoseTimeIsOverEndsInOneOfTheNextStates) {
  clock_.Begin(0, {.count = 0, .ns = 0, .alone = false});
  EXPECT_FALSE(clock_.IsOver({.count = 10, .ns = 2 * kMs}, false, NotAsked));
  const TurnClock::Leg leg = clock_.NextLeg(10, kNoLimit, false, true, Somebody);
  EXPECT_GT(leg.limit, 10u);
  EXPECT_TRUE(leg.exact);
  EXPECT_TRUE(clock_.IsOver({.count = leg.limit, .ns = 2 * kMs}, false, Somebody));
}

TEST_F(TurnClockTest, TurnWhoseTimeIsOverEndsAfterACallAtOnce) {
  clock_.Begin(0, {.count = 0, .ns = 0, .alone = false});
  EXPECT_FALSE(clock_.IsOver({.count = 10, .ns = kMs / 2}, /*after_call=*/true, NotAsked));
  EXPECT_TRUE(clock_.IsOver({.count = 10, .ns = 2 * kMs}, /*after_call=*/true, Somebody));
}

TEST_F(TurnClockTest, NotIfNobodyElseWantsATurn) {
  clock_.Begin(0, {.count = 0, .ns = 0, .alone = false});
  EXPECT_FALSE(clock_.IsOver({.count = 10, .ns = 2 * kMs}, /*after_call=*/true, Nobody));
}

TEST_F(TurnClockTest, TurnBecomesSharedWhenThereAreOthers) {
  clock_.Begin(0, {.count = 0, .ns = 0, .alone = true});
  EXPECT_FALSE(clock_.IsOver({.count = 1, .ns = kMs, .alone = false}, false, NotAsked));
  EXPECT_TRUE(clock_.IsOver({.count = 1 + 2 * TurnClock::kSharedQuantum, .ns = kMs, .alone = false},
                            false, Somebody));
}

TEST_F(TurnClockTest, CostlySwitchesMakeTurnsLonger) {
  clock_.End(2 * kMs);
  clock_.Begin(0, {.count = 0, .ns = 0, .alone = false});
  EXPECT_FALSE(clock_.IsOver({.count = 10, .ns = 11 * kMs}, /*after_call=*/true, Somebody));
  EXPECT_TRUE(clock_.IsOver({.count = 10, .ns = 12 * kMs}, /*after_call=*/true, Somebody));
}

TEST_F(TurnClockTest, LegsAreShortWhereOthersWait) {
  EXPECT_EQ(clock_.NextLeg(5, kNoLimit, true, false, NotAsked).limit, 5 + kQuantum);
  EXPECT_LT(ShortLeg(), kQuantum);
  EXPECT_EQ(clock_.NextLeg(5, 7, true, true, NotAsked).limit, 7u);
}

TEST_F(TurnClockTest, LegsAdaptToWhatTheirInstructionsCost) {
  const uint64_t usual = ShortLeg();
  clock_.NoteLeg(0, {.limit = usual}, true, kMs);
  EXPECT_EQ(ShortLeg(), usual / 2);
  clock_.NoteLeg(0, {.limit = usual}, true, 1);
  clock_.NoteLeg(0, {.limit = usual}, true, 1);
  EXPECT_EQ(ShortLeg(), 2 * usual);
  for (int i = 0; i < 20; ++i) clock_.NoteLeg(0, {.limit = kQuantum}, true, 1);
  EXPECT_EQ(ShortLeg(), TurnClock::kSharedQuantum);
}

TEST_F(TurnClockTest, LegThatWasCutShortSaysNothingUnlessItTookLong) {
  const uint64_t usual = ShortLeg();
  clock_.NoteLeg(0, {.limit = usual}, /*reached_limit=*/false, 1);
  clock_.NoteLeg(0, {.limit = usual / 2}, true, 1);
  EXPECT_EQ(ShortLeg(), usual);
  clock_.NoteLeg(0, {.limit = usual / 2}, true, kMs);
  EXPECT_EQ(ShortLeg(), usual / 2);
}

TEST_F(TurnClockTest, LegEndsWhereADelayedSignalIsDue) {
  EXPECT_FALSE(clock_.delays_signal());
  clock_.DelaySignal(1000);
  ASSERT_TRUE(clock_.delays_signal());
  clock_.MoveSignalTo(1500);
  EXPECT_FALSE(clock_.SignalIsDue(1499));
  EXPECT_TRUE(clock_.SignalIsDue(1500));
  const TurnClock::Leg leg = clock_.NextLeg(1000, kNoLimit, true, true, NotAsked);
  EXPECT_EQ(leg.limit, 1500u);
  EXPECT_TRUE(leg.exact);
  EXPECT_TRUE(clock_.ForgetSignal());
  EXPECT_FALSE(clock_.ForgetSignal());
}

}  // namespace
}  // namespace hindsight
