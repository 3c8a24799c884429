#include "recorder/emulate/pager/known_pages.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

class KnownPagesTest : public testing::Test {
 protected:
  KnownPage* Use(uint64_t address) {
    KnownPage* const page = pages_.Add(address);
    page->host = bytes_;
    page->in_segment = true;
    pages_.Hold(page);
    return page;
  }
  std::vector<uint64_t> Addresses(std::vector<KnownPage*> pages) {
    std::vector<uint64_t> addresses;
    for (const KnownPage* page : pages) addresses.push_back(page->address);
    std::sort(addresses.begin(), addresses.end());
    return addresses;
  }

  uint8_t bytes_[kPageBytes] = {};
  KnownPages pages_;
};

constexpr auto kAny = [](const KnownPage&) { return true; };

TEST_F(KnownPagesTest, GrantsAreUsedUpAndDoubled) {
  PageGrant grant;
  EXPECT_FALSE(grant.Use());
  grant.Renew();
  int uses = 0;
  while (grant.Use()) ++uses;
  EXPECT_EQ(uses, 4);
  for (int i = 0; i < 10; ++i) grant.Renew();
  EXPECT_EQ(grant.left, 64);
}

TEST_F(KnownPagesTest, SealedPagesAreHeldAndNotCompared) {
  KnownPage* const page = pages_.Add(0x1000);
  page->sealed = true;
  pages_.Hold(page);
  EXPECT_TRUE(page->held);
  EXPECT_TRUE(pages_.in_use().empty());
}

TEST_F(KnownPagesTest, PagesAreLetGoOfOnce) {
  KnownPage* const page = Use(0x1000);
  Use(0x2000);
  EXPECT_EQ(pages_.LetGo({page, page}), std::vector<uint64_t>({0x1000}));
  EXPECT_EQ(Addresses(pages_.in_use()), std::vector<uint64_t>({0x2000}));
  EXPECT_EQ(pages_.KnowledgeOf(0x1000), PageStanding::kKnown);
}

TEST_F(KnownPagesTest, WatchedAreThoseThatCanStillChange) {
  KnownPage* const page = pages_.Add(0x1000);
  page->of_others = true;
  pages_.Hold(page);
  EXPECT_EQ(pages_.watched().size(), 1u);
  page->copied = true;
  EXPECT_TRUE(pages_.watched().empty());
  // Its file may be truncated.
  KnownPage* const of_file = pages_.Add(0x2000);
  of_file->of_file = of_file->of_others = of_file->copied = true;
  pages_.Hold(of_file);
  EXPECT_EQ(Addresses(pages_.watched()), std::vector<uint64_t>({0x2000}));
}

TEST_F(KnownPagesTest, WhatTheSegmentHasIsRememberedOfErasedPages) {
  KnownPage* const page = Use(0x1000);
  pages_.LetGo({page});
  pages_.Erase({page});
  EXPECT_EQ(pages_.Find(0x1000), nullptr);
  EXPECT_TRUE(pages_.Add(0x1000)->released);
  EXPECT_TRUE(pages_.Find(0x1000)->in_segment);
  pages_.StartSegment();
  EXPECT_FALSE(pages_.Find(0x1000)->in_segment);
}

TEST_F(KnownPagesTest, RangesThatAreNonsenseAreHarmless) {
  for (uint64_t i = 1; i <= 4; ++i) Use(i << 12);
  EXPECT_EQ(Addresses(pages_.In({{{0x1fff, 2}}}, kAny)), std::vector<uint64_t>({0x1000, 0x2000}));
  EXPECT_EQ(pages_.In({{{0, ~uint64_t{0}}}}, kAny).size(), 4u);
  EXPECT_TRUE(pages_.In({{{~uint64_t{0} - 4, 100}}}, kAny).empty());
  EXPECT_EQ(Addresses(pages_.Within({{{0x1000, 0x2000}, {0x1000, 0x3000}}})),
            std::vector<uint64_t>({0x1000, 0x2000}));
  EXPECT_EQ(pages_.Within({{{0, ~uint64_t{0}}}}).size(), 4u);
}

TEST_F(KnownPagesTest, OnlyWhatIsKnownIsRead) {
  bytes_[8] = 7;
  Use(0x1000);
  KnownPage* const left = Use(0x2000);
  uint8_t byte = 0;
  EXPECT_TRUE(pages_.ReadKnown(0x1008, absl::MakeSpan(&byte, 1)));
  EXPECT_EQ(byte, 7);
  std::vector<uint8_t> both(16);
  EXPECT_TRUE(pages_.ReadKnown(0x1ff8, absl::MakeSpan(both)));
  left->left = true;
  EXPECT_FALSE(pages_.ReadKnown(0x1ff8, absl::MakeSpan(both)));
  EXPECT_EQ(pages_.KnowledgeOf(0x2000), PageStanding::kLeft);
  EXPECT_EQ(pages_.KnowledgeOf(0x3000), PageStanding::kNone);
}

}  // namespace
}  // namespace hindsight
