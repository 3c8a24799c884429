#include "recorder/emulate/sync/chaos_points.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "recorder/emulate/pager/process_pager_fixture.h"

namespace hindsight {
namespace {

constexpr pid_t kThread = 1;
constexpr int kSeeds = 200;

// The first instructions of the dynamic linker: each load is a meeting place, as the strictest
// memory model has it.
class ChaosPointsTest : public ProcessPagerTest {
 protected:
  void SetUp() override {
    ProcessPagerTest::SetUp();
    RegisterFile registers;
    ASSERT_TRUE(tracee_->GetRegisters(true, &registers));
    cpu_->SetRegisters(registers);
    sync_.emplace(pager_.get(), log_.get(), registers);
    sync_->Start(cpu_.get(), MemoryModel::kLoad);
  }
  void Make(uint64_t seed, bool chaos) {
    scheduler_ = std::make_unique<TurnScheduler>(seed, chaos);
    scheduler_->Choose({kThread, kThread + 1});
    clock_.emplace(scheduler_.get(), 1000);
    points_.emplace(scheduler_.get(), &*clock_, pager_.get(), &*sync_);
  }
  // Executes to the first instruction that is not for the Cpu.
  void RunLeg() {
    points_->BeginLeg();
    while (cpu_->Step().stop == Stop::kLimit) {
    }
  }
  bool SignalIsDue(bool pending, uint64_t count) {
    return points_->SignalIsDue(pending, count, [this] { ++synced_; });
  }

  std::optional<SyncPoint> sync_;
  std::unique_ptr<TurnScheduler> scheduler_;
  std::optional<TurnClock> clock_;
  std::optional<ChaosPoints> points_;
  int synced_ = 0;
};

TEST_F(ChaosPointsTest, WithoutChaosNothingIsChosen) {
  Make(1, /*chaos=*/false);
  points_->Start();
  RunLeg();
  EXPECT_FALSE(points_->EarlierEnd(kThread, cpu_.get(), 0, /*alone=*/false).has_value());
  EXPECT_FALSE(points_->EndsAtCall(kThread, /*alone=*/false));
  EXPECT_FALSE(SignalIsDue(/*pending=*/false, 10));
  EXPECT_TRUE(SignalIsDue(/*pending=*/true, 10));
  EXPECT_EQ(synced_, 0);
}

TEST_F(ChaosPointsTest, SomeTurnsEndEarlierWithinTheLeg) {
  int ends = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Make(seed, /*chaos=*/true);
    points_->Start();
    RunLeg();
    const uint64_t reached = cpu_->count();
    ASSERT_GT(reached, 2u);
    if (const auto end = points_->EarlierEnd(kThread, cpu_.get(), 1, /*alone=*/false)) {
      ++ends;
      EXPECT_GT(*end, 1u);
      EXPECT_LT(*end, reached);
    }
    ASSERT_TRUE(sync_->GoBack());
  }
  EXPECT_GT(ends, 0);
  EXPECT_LT(ends, kSeeds);
}

TEST_F(ChaosPointsTest, ThreadThatIsAloneIsNotInterrupted) {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    Make(seed, /*chaos=*/true);
    RunLeg();
    EXPECT_FALSE(points_->EarlierEnd(kThread, cpu_.get(), 0, /*alone=*/true).has_value());
    EXPECT_FALSE(points_->EndsAtCall(kThread, /*alone=*/true));
    ASSERT_TRUE(sync_->GoBack());
  }
}

TEST_F(ChaosPointsTest, SignalIsDelayedOnce) {
  Make(1, /*chaos=*/true);
  EXPECT_FALSE(SignalIsDue(/*pending=*/true, 10));
  EXPECT_FALSE(SignalIsDue(/*pending=*/true, 10));
  EXPECT_EQ(synced_, 1);
  EXPECT_TRUE(SignalIsDue(/*pending=*/true, 1'000'000));
  EXPECT_FALSE(clock_->delays_signal());
}

TEST_F(ChaosPointsTest, DelayedSignalThatIsNotPendingAnyMoreIsForgotten) {
  Make(1, /*chaos=*/true);
  EXPECT_FALSE(SignalIsDue(/*pending=*/true, 10));
  EXPECT_TRUE(clock_->delays_signal());
  EXPECT_FALSE(SignalIsDue(/*pending=*/false, 1'000'000));
  EXPECT_FALSE(clock_->delays_signal());
}

}  // namespace
}  // namespace hindsight
