#include "keyframes/memory/touched_pages.h"

#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 0x5000;

Record Whole(uint64_t count, uint64_t page = kPage) {
  return {count, PageImport{.address = page, .first = true}};
}
Record Part(uint64_t count, uint64_t page = kPage) {
  return {count, PageImport{.address = page, .line_mask = 2}};
}

uint64_t LastCount(const TouchedPages& touched, uint64_t page, uint64_t count) {
  const TouchedPage* const last = touched.LastOf(page, count);
  return last == nullptr ? 0 : last->count;
}

TEST(TouchedPagesTest, TheLastTimeThatAllOfAPageCameInIsKnown) {
  const TouchedPages touched({Whole(5),
                              Whole(6, 0x9000),
                              Part(10),
                              Part(15),
                              {20, PageImport{.address = kPage, .line_mask = ~uint64_t{0}}},
                              Part(25),
                              Whole(30)});
  EXPECT_EQ(LastCount(touched, kPage, 4), 0);
  EXPECT_EQ(LastCount(touched, kPage, 5), 5);
  EXPECT_EQ(LastCount(touched, kPage, 19), 5);
  EXPECT_EQ(LastCount(touched, kPage, 29), 20);
  EXPECT_EQ(LastCount(touched, kPage, 100), 30);
  EXPECT_EQ(LastCount(touched, 0x9000, 100), 6);
  EXPECT_EQ(touched.LastOf(0x7000, 100), nullptr);
}

TEST(TouchedPagesTest, APageLeavesAndComesBackInParts) {
  const TouchedPages touched({Whole(5), {7, PageLeft{kPage}}, {8, PageLeft{kPage}}, Part(9)});
  EXPECT_FALSE(touched.LastOf(kPage, 6)->left);
  EXPECT_TRUE(touched.LastOf(kPage, 8)->left);
  EXPECT_FALSE(touched.LastOf(kPage, 9)->left);
  EXPECT_EQ(LastCount(touched, kPage, 9), 9);
}

TEST(TouchedPagesTest, LinesAndReadsTouchPages) {
  const TouchedPages touched(
      {{3, LineImport{.address = kPage + 128}}, {4, UncachedRead{.address = 0x9010, .size = 8}}});
  EXPECT_EQ(LastCount(touched, kPage, 100), 3);
  EXPECT_EQ(LastCount(touched, 0x9000, 100), 4);
}

TEST(TouchedPagesTest, APageThatComesInTwiceInAStateIsNotWhatTheSegmentBeganWith) {
  const TouchedPages touched({Whole(3), Whole(3, 0x9000), Whole(3, 0x9000), Part(3), Whole(5)});
  EXPECT_FALSE(touched.CameInAgain(*touched.LastOf(kPage, 3)));
  EXPECT_FALSE(touched.CameInAgain(*touched.LastOf(kPage, 5)));
  EXPECT_TRUE(touched.CameInAgain(*touched.LastOf(0x9000, 3)));
}

TEST(TouchedPagesTest, WhatComesInInAStateIsKnown) {
  const std::vector<Record> records = {
      Whole(3), Part(5), {6, LineImport{.address = kPage + 64}}, Part(7, 0x9000)};
  for (const uint64_t count : {3, 5, 6})
    EXPECT_TRUE(TouchedPages::ComesInAt(records, kPage, count));
  for (const uint64_t count : {2, 4, 7, 8}) {
    EXPECT_FALSE(TouchedPages::ComesInAt(records, kPage, count)) << count;
  }
}

TEST(TouchedPagesTest, SystemCallsAreKnown) {
  const TouchedPages touched({Whole(3),
                              {3, SideEffect{.kind = SideEffectKind::kSyscall}},
                              {5, SideEffect{.kind = SideEffectKind::kInstruction}}});
  EXPECT_TRUE(touched.IsCall(3));
  EXPECT_FALSE(touched.IsCall(4));
  EXPECT_FALSE(touched.IsCall(5));
}

TEST(TouchedPagesTest, PagesOfRangesAreListedOnlyIfTheListIsComplete) {
  const Record range = {10, MappedRange{.address = kPage, .bytes = 2 * kPageBytes}};
  const TouchedPages open({range, {90, UsedPages{.complete = false}}});
  EXPECT_TRUE(open.MayComeInUnlisted(kPage, 10, 10));
  EXPECT_TRUE(open.MayComeInUnlisted(kPage + kPageBytes, 5, 20));
  EXPECT_FALSE(open.MayComeInUnlisted(kPage + 2 * kPageBytes, 5, 20));
  EXPECT_FALSE(open.MayComeInUnlisted(kPage - kPageBytes, 5, 20));
  EXPECT_FALSE(open.MayComeInUnlisted(kPage, 11, 20));
  EXPECT_FALSE(open.MayComeInUnlisted(kPage, 5, 9));
  const TouchedPages complete({range, {90, UsedPages{.complete = true}}});
  EXPECT_FALSE(complete.MayComeInUnlisted(kPage, 10, 10));
}

}  // namespace
}  // namespace hindsight
