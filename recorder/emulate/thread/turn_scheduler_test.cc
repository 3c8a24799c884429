#include "recorder/emulate/thread/turn_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace hindsight {
namespace {

constexpr pid_t kThreads[] = {100, 101, 102};
constexpr uint64_t kMost = 100'000;

// What it decides in so many turns of three threads that can always run.
std::vector<uint64_t> Decisions(TurnScheduler scheduler, int turns) {
  std::vector<uint64_t> made;
  for (int i = 0; i < turns; ++i) {
    const size_t chosen = scheduler.Choose(kThreads);
    const uint64_t length = scheduler.TurnLength(kMost);
    scheduler.NoteExecuted(length);
    made.insert(made.end(), {chosen, length, scheduler.EndsAtCall(kThreads[chosen]),
                             scheduler.EndsAtPlace(kThreads[chosen], 5).value_or(99),
                             static_cast<uint64_t>(scheduler.DistanceFromPlace()),
                             scheduler.SignalDelay(), scheduler.Tail()});
  }
  return made;
}

TEST(TurnSchedulerTest, SameSeedSameDecisions) {
  for (const uint64_t seed : {0ull, 1ull, 2ull, 123456789ull, ~0ull}) {
    EXPECT_EQ(Decisions(TurnScheduler(seed, true), 3000),
              Decisions(TurnScheduler(seed, true), 3000));
  }
}

TEST(TurnSchedulerTest, NeighbouringSeedsDecideDifferently) {
  std::set<std::vector<uint64_t>> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    seen.insert(Decisions(TurnScheduler(seed, true), 20));
  }
  EXPECT_EQ(seen.size(), 200u);
}

TEST(TurnSchedulerTest, NoTurnIsLongerThanAllowedOrEmpty) {
  for (const bool chaos : {false, true}) {
    TurnScheduler scheduler(7, chaos);
    for (const uint64_t most : {1, 2, 3, 10, 1000}) {
      for (int i = 0; i < 2000; ++i) {
        scheduler.Choose(kThreads);
        const uint64_t length = scheduler.TurnLength(most);
        EXPECT_GE(length, 1u);
        EXPECT_LE(length, most);
      }
    }
  }
}

TEST(TurnSchedulerTest, WithoutChaosTurnsVaryByHalf) {
  TurnScheduler scheduler(3, false);
  uint64_t least = kMost, most = 0;
  for (int i = 0; i < 2000; ++i) {
    const uint64_t length = scheduler.TurnLength(kMost);
    least = std::min(least, length);
    most = std::max(most, length);
  }
  EXPECT_GE(least, kMost / 2);
  EXPECT_LT(least, kMost * 51 / 100);
  EXPECT_GT(most, kMost * 99 / 100);
}

TEST(TurnSchedulerTest, TurnsAreShortAtFirstAndOfAllLengthsLater) {
  TurnScheduler scheduler(11, true);
  uint64_t executed = 0, longest_at_first = 0, short_later = 0, long_later = 0;
  for (int i = 0; i < 200'000; ++i) {
    scheduler.Choose(kThreads);
    const uint64_t length = scheduler.TurnLength(kMost);
    scheduler.NoteExecuted(length);
    executed += length;
    if (executed < 10'000) longest_at_first = std::max(longest_at_first, length);
    if (executed > 50'000'000) {
      short_later += length < 100;
      long_later += length > 10'000;
    }
  }
  EXPECT_LE(longest_at_first, 256u);
  EXPECT_GT(short_later, 10'000u);
  EXPECT_GT(long_later, 10'000u);
}

// How often one of the three waits for so many turns of others.
int Starvations(bool chaos_turns, uint64_t turns_waited) {
  TurnScheduler scheduler(5, true);
  uint64_t last[3] = {};
  int starved = 0;
  for (uint64_t turn = 1; turn < 100'000; ++turn) {
    const size_t chosen = scheduler.Choose(kThreads);
    if (turn - last[chosen] > turns_waited) ++starved;
    last[chosen] = turn;
    scheduler.NoteExecuted(100);
    if (chaos_turns) scheduler.EndsAtCall(kThreads[chosen]);
  }
  return starved;
}

TEST(TurnSchedulerTest, ThreadsStarveForAWhileButNotForLong) {
  for (const bool calls : {false, true}) {
    EXPECT_GT(Starvations(calls, 20), 100);
    EXPECT_EQ(Starvations(calls, 10'000), 0);
  }
}

TEST(TurnSchedulerTest, OneThatWasHeldBackRunsIfNobodyElseCan) {
  TurnScheduler scheduler(1, true);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_EQ(scheduler.Choose({kThreads, 1}), 0u);
    scheduler.EndsAtCall(kThreads[0]);
  }
}

// A thread is stopped at some place, and another passes a thousand: which of them ends its turn.
TEST(TurnSchedulerTest, AThreadIsHeldBackUntilOthersHaveComeByPlaces) {
  int soon = 0, late = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    TurnScheduler scheduler(seed, true);
    scheduler.Choose({kThreads, 2});
    if (!scheduler.EndsAtPlace(kThreads[0], 10).has_value()) continue;
    for (int places = 0; places < 1000; places += 100) {
      const std::optional<size_t> place = scheduler.EndsAtPlace(kThreads[1], 100);
      if (!place.has_value()) continue;
      EXPECT_LT(*place, 100u);
      ++(places + *place < 64 ? soon : late);
      break;
    }
  }
  // By chance alone, in each of ten looks at a hundred places with one and the same probability, it
  // would be late in twice as many runs as soon.
  EXPECT_GT(soon, late);
}

// A call that wakes another thread: often that one runs next, and often not at once.
TEST(TurnSchedulerTest, TheWokenRunsSoonerOrLater) {
  TurnScheduler scheduler(2, true);
  int at_once = 0, later = 0;
  for (int i = 0; i < 20'000; ++i) {
    scheduler.Choose({kThreads, 1});
    scheduler.NoteExecuted(100);
    ++(scheduler.Choose({kThreads, 2}) == 1 ? at_once : later);
  }
  EXPECT_GT(at_once, 4000);
  EXPECT_GT(later, 4000);
}

TEST(TurnSchedulerTest, SignalDelaysAreOfAllMagnitudes) {
  TurnScheduler scheduler(4, true);
  int none = 0, some = 0, long_ones = 0;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t delay = scheduler.SignalDelay();
    none += delay <= 2;
    some += delay > 50 && delay < 500;
    long_ones += delay > 5000;
  }
  EXPECT_GT(none, 500);
  EXPECT_GT(some, 500);
  EXPECT_GT(long_ones, 500);
}

}  // namespace
}  // namespace hindsight
