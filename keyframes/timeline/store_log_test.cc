#include "keyframes/timeline/store_log.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <random>

#include "gtest/gtest.h"
#include "keyframes/toys/toy_threads.h"

namespace hindsight {
namespace {

class StoreLogTest : public testing::Test {
 protected:
  void Watch(size_t variable) {
    log_.Watch({{.address = ToyThreads::kVariables[variable], .length = 8}});
  }
  uint64_t QuietUntil(int32_t thread, uint64_t moment) {
    const absl::StatusOr<uint64_t> until = log_.QuietUntil(thread, moment, nullptr);
    EXPECT_TRUE(until.ok()) << until.status();
    return until.value_or(moment);
  }
  // The first moment at or after `moment` out of which another thread changes the variable.
  uint64_t NextChange(size_t variable, int32_t thread, uint64_t moment) const {
    for (; moment < toy_.end_moment(); ++moment) {
      const ToyThreads::Moment& truth = toy_.moments()[moment];
      if (truth.thread != thread && truth.changes[variable]) break;
    }
    return moment;
  }

  const ToyThreads toy_{{.seed = 5, .keyframe_turns = 0}};
  const ProcessState process_ = *ProcessState::Create(toy_.trace());
  MemoryView memory_{toy_.trace(), &process_, nullptr, 1 << 20};
  StoreLog log_{toy_.trace(), &process_, &memory_, 1 << 20};
};

TEST_F(StoreLogTest, NoOtherThreadStoresWhereItIsSaidToBeQuiet) {
  std::mt19937 random(1);
  for (size_t variable = 0; variable < ToyThreads::kVariables.size(); ++variable) {
    Watch(variable);
    for (int i = 0; i < 200; ++i) {
      const uint64_t moment = random() % toy_.end_moment();
      for (const int32_t thread : {ToyThreads::kMain, ToyThreads::kSecond, ToyThreads::kThird}) {
        const uint64_t until = QuietUntil(thread, moment);
        EXPECT_GE(until, moment);
        EXPECT_LE(until, NextChange(variable, thread, moment)) << variable << " at " << moment;
      }
    }
  }
}

// Steps end where segments do, and some way before a store or an import: blocks are noted, and a
// thread's last states may lie in its turn before.
TEST_F(StoreLogTest, MostOfTheTimeItIsQuietWhereOthersStoreRarely) {
  constexpr size_t kRare = 4;
  Watch(kRare);
  uint64_t quiet = 0;
  int steps = 0;
  for (uint64_t moment = 0; moment < toy_.end_moment(); ++steps) {
    const uint64_t until = QuietUntil(ToyThreads::kMain, moment);
    quiet += until - moment;
    moment = std::max(until, moment + 1);
  }
  EXPECT_GT(quiet, toy_.end_moment() / 2);
  EXPECT_LT(steps, 1000);
}

TEST_F(StoreLogTest, CanBeInterrupted) {
  Watch(0);
  const std::atomic<bool> interrupt{true};
  EXPECT_TRUE(absl::IsCancelled(log_.QuietUntil(ToyThreads::kMain, 0, &interrupt).status()));
  EXPECT_LE(QuietUntil(ToyThreads::kMain, 0), NextChange(0, ToyThreads::kMain, 0));
}

}  // namespace
}  // namespace hindsight
