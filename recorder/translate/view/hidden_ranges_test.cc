#include "recorder/translate/view/hidden_ranges.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <utility>
#include <vector>

#include "base/test_seed.h"

namespace hindsight {
namespace {

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

Ranges UntoldOf(const HiddenRanges& hidden, uint64_t start, uint64_t end) {
  Ranges found;
  hidden.ForEachUntold(start, end, [&](uint64_t from, uint64_t to) {
    found.push_back({from, to});
  });
  return found;
}

TEST(HiddenRangesTest, NothingIsHiddenAtFirst) {
  const HiddenRanges hidden;
  EXPECT_FALSE(hidden.AnyIn(0, ~uint64_t{0}));
  EXPECT_EQ(UntoldOf(hidden, 0, ~uint64_t{0}), Ranges());
}

TEST(HiddenRangesTest, TellsThePartThatIsAskedFor) {
  HiddenRanges hidden;
  hidden.Add(0x1000, 0x5000, /*told=*/false);
  EXPECT_EQ(UntoldOf(hidden, 0x2000, 0x3000), (Ranges{{0x2000, 0x3000}}));
  EXPECT_EQ(UntoldOf(hidden, 0, 0x9000), (Ranges{{0x1000, 0x5000}}));
  EXPECT_EQ(UntoldOf(hidden, 0x5000, 0x9000), Ranges());
}

TEST(HiddenRangesTest, WhatTheSegmentHasIsUntoldInTheNext) {
  HiddenRanges hidden;
  hidden.Add(0x1000, 0x2000, /*told=*/true);
  EXPECT_TRUE(hidden.AnyIn(0x1000, 0x2000));
  EXPECT_EQ(UntoldOf(hidden, 0, 0x9000), Ranges());
  hidden.BeginSegment();
  EXPECT_EQ(UntoldOf(hidden, 0, 0x9000), (Ranges{{0x1000, 0x2000}}));
}

TEST(HiddenRangesTest, HiddenOnceMoreIsAsUntoldAsItWas) {
  HiddenRanges hidden;
  hidden.Add(0x2000, 0x3000, /*told=*/false);
  hidden.Add(0x1000, 0x5000, /*told=*/true);
  EXPECT_EQ(UntoldOf(hidden, 0, 0x9000), (Ranges{{0x2000, 0x3000}}));
}

TEST(HiddenRangesTest, OfWhatIsRemovedTheRestStays) {
  HiddenRanges hidden;
  hidden.Add(0x1000, 0x5000, /*told=*/false);
  hidden.Remove(0x2000, 0x3000);
  EXPECT_EQ(UntoldOf(hidden, 0, 0x9000), (Ranges{{0x1000, 0x2000}, {0x3000, 0x5000}}));
  EXPECT_FALSE(hidden.AnyIn(0x2000, 0x3000));
}

TEST(HiddenRangesTest, WhatChangesWhileItIsHiddenIsUntold) {
  HiddenRanges hidden;
  hidden.Add(0x1000, 0x5000, /*told=*/true);
  hidden.Change(0x2000, 0x3000);
  EXPECT_EQ(UntoldOf(hidden, 0, 0x9000), (Ranges{{0x2000, 0x3000}}));
  hidden.Change(0x6000, 0x7000);
  EXPECT_FALSE(hidden.AnyIn(0x6000, 0x7000)) << "nobody has hidden it";
}

TEST(HiddenRangesTest, OfTooManyEverythingMayBeHidden) {
  HiddenRanges hidden;
  for (uint64_t i = 0; i <= HiddenRanges::kMost; ++i) {
    hidden.Add((2 * i + 1) << 12, (2 * i + 2) << 12, /*told=*/true);
  }
  EXPECT_TRUE(hidden.AnyIn(0x70000000, 0x70001000));
  EXPECT_EQ(UntoldOf(hidden, 0x70000000, 0x70001000), (Ranges{{0x70000000, 0x70001000}}));
}

TEST(HiddenRangesTest, WithoutRoomForWhatLiesBeforeTheLastEverythingMayBeHidden) {
  HiddenRanges hidden;
  for (uint64_t i = 0; i < HiddenRanges::kMost; ++i) {
    hidden.Add((4 * i + 1) << 12, (4 * i + 2) << 12, /*told=*/false);
  }
  EXPECT_FALSE(hidden.AnyIn(0x70000000, 0x70001000));
  const uint64_t last = 4 * (HiddenRanges::kMost - 1) + 1;
  hidden.Add((last - 1) << 12, (last + 2) << 12, /*told=*/true);
  EXPECT_TRUE(hidden.AnyIn(0x70000000, 0x70001000));
}

// Page by page the same.
TEST(HiddenRangesTest, RandomOnes) {
  constexpr uint64_t kPages = 64;
  enum State : uint8_t { kOpen, kTold, kUntold };
  std::mt19937 random(TestSeed());
  HiddenRanges hidden;
  std::array<State, kPages> pages = {};
  for (int round = 0; round < 20'000; ++round) {
    const uint64_t start = random() % kPages, end = start + 1 + random() % (kPages - start);
    const uint32_t what = random() % 17;
    const bool told = random() % 2 == 0;
    if (what == 0) {
      hidden.BeginSegment();
    } else if (what == 16) {
      hidden.Change(start, end);
    } else if (what < 8) {
      hidden.Add(start, end, told);
    } else {
      hidden.Remove(start, end);
    }
    bool any = false;
    Ranges untold;
    for (uint64_t i = 0; i < kPages; ++i) {
      State& state = pages[i];
      if (what == 0) {
        if (state == kTold) state = kUntold;
      } else if (i >= start && i < end) {
        if (what == 16 && state == kTold) state = kUntold;
        if (what >= 8 && what < 16) state = kOpen;
        if (what < 8 && state == kOpen) state = told ? kTold : kUntold;
      }
      any |= state != kOpen;
      if (state == kUntold) untold.push_back({i, i + 1});
    }
    ASSERT_EQ(hidden.AnyIn(0, kPages), any);
    Ranges found;
    for (const auto& [from, to] : UntoldOf(hidden, 0, kPages)) {
      for (uint64_t i = from; i < to; ++i) found.push_back({i, i + 1});
    }
    ASSERT_EQ(found, untold) << round;
  }
}

}  // namespace
}  // namespace hindsight
