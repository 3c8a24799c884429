// What a stream makes of the pages that its thread sees.

#include <cstring>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recorder/translate/stream/thread_stream.h"
#include "recorder/translate/stream/thread_stream_fixture.h"

namespace hindsight {
namespace {

using SeenPagesTest = ThreadStreamTest;

TEST_F(SeenPagesTest, APageEntersTheViewWithTheLinesThatAreNotZero) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  Entry<HsPage> page(HS_ENTRY_PAGE, 3);
  page->address = 0x7000;
  page->bytes[64] = 1;
  page->bytes[4095] = 2;
  ASSERT_TRUE(stream_.Consume(page.base()).ok());
  const auto& import = LastRecord<PageImport>();
  EXPECT_TRUE(import.first);
  EXPECT_EQ(import.address, 0x7000u);
  EXPECT_EQ(import.line_mask, uint64_t{1} << 63 | 2);
  EXPECT_EQ(import.lines.size(), 128u);
}

TEST_F(SeenPagesTest, CodeIsInTheViewBeforeWhatComesAfterItWasExecuted) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  ASSERT_TRUE(Bare(HS_ENTRY_LOCKED, 4).ok());
  process_.executed_pages.Publish(0x1000, std::vector<uint8_t>(kPageBytes, 0x90), true);
  ASSERT_TRUE(Bare(HS_ENTRY_LOCKED, 8).ok());
  ASSERT_EQ(writer_.records.size(), 2u);  // the second run is kept back
  EXPECT_TRUE(std::holds_alternative<OrderRun>(writer_.records[0].body));
  EXPECT_EQ(LastRecord<PageImport>().address, 0x1000u);
  EXPECT_TRUE(LastRecord<PageImport>().first);
  EXPECT_EQ(writer_.records[1].count, 5u);
  ASSERT_TRUE(State(HS_ENTRY_SEGMENT, 100, 6).ok());
  ASSERT_TRUE(Bare(HS_ENTRY_REACHED, 200).ok());
  EXPECT_EQ(LastRecord<PageImport>().address, 0x1000u);
  EXPECT_TRUE(LastRecord<PageImport>().first);
  EXPECT_EQ(writer_.records.back().count, 100u);
}

TEST_F(SeenPagesTest, ChangedLinesAreImported) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  Entry<HsLines> lines(HS_ENTRY_LINES, 3, 64);
  lines->address = 0x7000;
  lines->mask = 4;
  lines->known = 6;  // of those that are there
  lines->shown[0] = {2, 4};
  lines->shown[1] = {3, 4};  // of no thread
  lines->shown[2] = {4, 3};
  std::memset(lines->bytes, 9, 64);
  threads_.writers = {{2, 17}, {4, 18}};
  ASSERT_TRUE(stream_.Consume(lines.base()).ok());
  const PageImport::Shown by = {17, 4};
  EXPECT_THAT(LastRecord<PageImport>().shown, testing::ElementsAre(by));
  EXPECT_EQ(LastRecord<PageImport>().known_mask, 4u);
  EXPECT_FALSE(LastRecord<PageImport>().first);
  EXPECT_EQ(LastRecord<PageImport>().line_mask, 4u);
  EXPECT_EQ(LastRecord<PageImport>().lines[63], 9);
}

TEST_F(SeenPagesTest, WhereTheNextSegmentsPagesAreLookedAtATurnBegins) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  const size_t records = writer_.records.size();
  HsEntry refresh = {.size = sizeof(HsEntry), .kind = HS_ENTRY_REFRESH, .count = 3, .time = 77};
  ASSERT_TRUE(stream_.Consume(&refresh).ok());
  EXPECT_EQ(writer_.records.size(), records);
  EXPECT_EQ(threads_.begun, std::vector<uint64_t>{77});
}

TEST_F(SeenPagesTest, WhatTranslatedCodeIsAboutToUseComesInTheStateBeforeThat) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  // The block has been counted: seven instructions too many.
  Entry<HsPage> page(HS_ENTRY_PAGE, 30);
  page->address = 0x7000;
  page->host = 1007;
  ASSERT_TRUE(stream_.Consume(page.base()).ok());
  EXPECT_EQ(writer_.records.back().count, 23u);
  Entry<HsLines> lines(HS_ENTRY_LINES, 30, 64);
  lines->address = 0x7000;
  lines->mask = 1;
  lines->host = 1005;
  lines->bytes[0] = 1;
  ASSERT_TRUE(stream_.Consume(lines.base()).ok());
  EXPECT_EQ(writer_.records.back().count, 25u);
}

TEST_F(SeenPagesTest, APlaceThatStandsForNoStateOrAnEarlierOneIsAnError) {
  ASSERT_TRUE(State(HS_ENTRY_BEGIN, 0, 5).ok());
  Entry<HsPage> page(HS_ENTRY_PAGE, 30);
  page->address = 0x7000;
  page->host = 1000;
  EXPECT_TRUE(stream_.Consume(page.base()).ok());
  page->host = 999;
  EXPECT_FALSE(stream_.Consume(page.base()).ok());
  page->host = 1001;
  EXPECT_FALSE(stream_.Consume(page.base()).ok());
}

}  // namespace
}  // namespace hindsight
