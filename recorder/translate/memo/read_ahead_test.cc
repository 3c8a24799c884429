#include "recorder/translate/memo/read_ahead.h"

#include <gtest/gtest.h>

namespace hindsight {
namespace {

// How many are taken until it has no more; `there`: every other one is there already.
uint32_t TakeAll(ReadAhead* ahead, bool there = false) {
  uint32_t taken = 0;
  while (ahead->HasNext()) {
    if (there && ahead->next() % 2 == 0) {
      ahead->Skip();
      continue;
    }
    ahead->NoteTaken();
    ++taken;
  }
  return taken;
}

TEST(ReadAheadTest, NothingIsTakenBeforeAnythingIsAskedFor) { EXPECT_FALSE(ReadAhead().HasNext()); }

TEST(ReadAheadTest, WhoFollowsTheOrderGetsTwiceAsManyEachTime) {
  ReadAhead ahead;
  ahead.Ask(0);
  EXPECT_EQ(ahead.next(), 1u);
  for (uint32_t size = ReadAhead::kLeast; size < ReadAhead::kMost; size *= 2) {
    EXPECT_EQ(TakeAll(&ahead), size);
    ahead.Ask(ahead.next());
  }
  EXPECT_EQ(TakeAll(&ahead), ReadAhead::kMost);
  ahead.Ask(ahead.next());
  EXPECT_EQ(TakeAll(&ahead), ReadAhead::kMost);
}

TEST(ReadAheadTest, WhoIsFasterThanTheServiceFollowsTheOrder) {
  ReadAhead ahead;
  ahead.Ask(0);
  ahead.NoteTaken();
  ahead.Ask(3);
  EXPECT_EQ(ahead.next(), 4u);
  EXPECT_EQ(TakeAll(&ahead), 2 * ReadAhead::kLeast);
}

TEST(ReadAheadTest, SomeMayBeLeftOut) {
  ReadAhead ahead;
  ahead.Ask(0);
  TakeAll(&ahead);
  ahead.Ask(ahead.next() + ReadAhead::kLeast);
  EXPECT_EQ(TakeAll(&ahead), 2 * ReadAhead::kLeast);
  ahead.Ask(ahead.next() + 2 * ReadAhead::kLeast + 1);
  EXPECT_EQ(TakeAll(&ahead), ReadAhead::kLeast);
}

TEST(ReadAheadTest, WhoDoesNotFollowGetsFewerUntilItIsNone) {
  ReadAhead ahead;
  ahead.Ask(0);
  for (int i = 0; i < 10; ++i) {
    TakeAll(&ahead);
    ahead.Ask(ahead.next());
  }
  uint32_t place = 1'000'000;
  for (uint32_t size = ReadAhead::kMost / 2; size > 0; size /= 2) {
    ahead.Ask(place -= 1000);
    EXPECT_EQ(TakeAll(&ahead), size);
  }
  ahead.Ask(place - 1000);
  EXPECT_FALSE(ahead.HasNext());
  ahead.Ask(ahead.next());
  EXPECT_EQ(TakeAll(&ahead), ReadAhead::kLeast);
}

TEST(ReadAheadTest, WhoBeginsElsewhereGetsNone) {
  ReadAhead ahead;
  ahead.Ask(500);
  EXPECT_FALSE(ahead.HasNext());
}

TEST(ReadAheadTest, WhatIsThereCostsNothing) {
  ReadAhead ahead;
  ahead.Ask(0);
  EXPECT_EQ(TakeAll(&ahead, /*there=*/true), ReadAhead::kLeast);
  EXPECT_EQ(ahead.next(), 2 * ReadAhead::kLeast);
}

TEST(ReadAheadTest, OneThatIsStoppedGoesOnWithTheNextThatIsAskedFor) {
  ReadAhead ahead;
  ahead.Ask(0);
  ahead.NoteTaken();
  ahead.Stop();
  EXPECT_FALSE(ahead.HasNext());
  ahead.Ask(ahead.next());
  EXPECT_EQ(TakeAll(&ahead), 2 * ReadAhead::kLeast);
}

}  // namespace
}  // namespace hindsight
