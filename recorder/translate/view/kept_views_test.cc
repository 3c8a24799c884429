#include "recorder/translate/view/kept_views.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

std::vector<uint64_t> released;
void Release(uint64_t number) { released.push_back(number); }

class KeptViewsTest : public testing::Test {
 protected:
  KeptViewsTest() { released.clear(); }

  KeptViews views_ = {};
};

TEST_F(KeptViewsTest, AreThereUntilTheNumberIsUsedAgain) {
  EXPECT_FALSE(views_.Has(3));
  views_.Keep(3, 10, &Release);
  views_.Keep(5, 10, &Release);
  EXPECT_TRUE(views_.Has(3) && views_.Has(5));
  views_.GiveBack(3, &Release);
  EXPECT_FALSE(views_.Has(3));
  EXPECT_TRUE(views_.Has(5));
  views_.GiveBack(4, &Release);
  EXPECT_EQ(released, std::vector<uint64_t>{3});
}

TEST_F(KeptViewsTest, TheOldestMakesRoom) {
  for (uint64_t number = 1; number <= KeptViews::kMostViews + 2; ++number) {
    views_.Keep(number, 1, &Release);
  }
  EXPECT_EQ(released, (std::vector<uint64_t>{1, 2}));
  EXPECT_FALSE(views_.Has(2));
  EXPECT_TRUE(views_.Has(3) && views_.Has(KeptViews::kMostViews + 2));
}

TEST_F(KeptViewsTest, TakeNoMorePagesThanThat) {
  views_.Keep(1, KeptViews::kMostPages / 2, &Release);
  views_.Keep(2, KeptViews::kMostPages / 2, &Release);
  EXPECT_TRUE(released.empty());
  views_.Keep(3, 1, &Release);
  EXPECT_EQ(released, std::vector<uint64_t>{1});
  views_.Keep(4, KeptViews::kMostPages + 1, &Release);
  EXPECT_EQ(released, (std::vector<uint64_t>{1, 4}));
  EXPECT_TRUE(views_.Has(2) && views_.Has(3));
}

TEST_F(KeptViewsTest, AChildHasNone) {
  views_.Keep(1, 1, &Release);
  views_.Forget();
  EXPECT_FALSE(views_.Has(1));
  EXPECT_TRUE(released.empty());
}

// Each view is released as often as it was kept, but for those that are still there.
TEST_F(KeptViewsTest, ThreadsKeepAndGiveBackAtOnce) {
  constexpr int kThreads = 4, kRounds = 20000;
  static std::atomic<int> releases;
  releases = 0;
  const auto release = [](uint64_t) { ++releases; };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i, release] {
      for (int round = 0; round < kRounds; ++round) {
        const uint64_t number = static_cast<uint64_t>(1 + i * 5 + round % 5);
        views_.GiveBack(number, release);
        EXPECT_FALSE(views_.Has(number));
        views_.Keep(number, 1, release);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int left = 0;
  for (uint64_t number = 1; number <= kThreads * 5; ++number) left += views_.Has(number) ? 1 : 0;
  EXPECT_EQ(releases + left, kThreads * kRounds);
}

}  // namespace
}  // namespace hindsight
