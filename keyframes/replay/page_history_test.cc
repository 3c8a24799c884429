#include "keyframes/replay/page_history.h"

#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 0x5000, kOther = 0x7000;

Record Import(uint64_t count, uint64_t page) {
  PageImport import;
  import.address = page;
  return {count, import};
}
Record Left(uint64_t count, uint64_t page) { return {count, PageLeft{page}}; }

TEST(PageHistory, NothingWhereNothingWasLeft) {
  const std::vector<Record> records = {Import(1, kPage), Import(5, kPage)};
  const PageHistory history(records);
  EXPECT_TRUE(history.empty());
  EXPECT_FALSE(history.LeftSince(kPage, 2).has_value());
}

TEST(PageHistory, LeftFromTheRecordToTheNextImport) {
  const std::vector<Record> records = {Import(1, kPage), Import(2, kOther), Left(5, kPage),
                                       Import(6, kOther), Import(9, kPage)};
  const PageHistory history(records);
  EXPECT_FALSE(history.LeftSince(kPage, 2).has_value());
  EXPECT_EQ(history.LeftSince(kPage, 3), 5u);
  EXPECT_EQ(history.LeftSince(kPage, 4), 5u);
  EXPECT_FALSE(history.LeftSince(kPage, 5).has_value());
  EXPECT_FALSE(history.LeftSince(kOther, 5).has_value());
}

TEST(PageHistory, LeftTwiceIsLeftSinceTheFirst) {
  const std::vector<Record> records = {Left(5, kPage), Left(8, kPage)};
  EXPECT_EQ(PageHistory(records).LeftSince(kPage, 2), 5u);
}

TEST(PageHistory, LinesAndReadsAreImports) {
  const std::vector<Record> records = {Left(5, kPage),
                                       {6, LineImport{.address = kPage + 64}},
                                       Left(7, kPage),
                                       {8, UncachedRead{.address = kPage + 8, .size = 8}}};
  const PageHistory history(records);
  EXPECT_FALSE(history.LeftSince(kPage, 2).has_value());
  EXPECT_FALSE(history.LeftSince(kPage, 4).has_value());
}

TEST(PageHistory, Spans) {
  const std::vector<Record> records = {Left(5, kPage), Left(6, kPage), Import(9, kPage),
                                       Left(12, kPage)};
  const std::vector<PageHistory::Span> spans = PageHistory(records).SpansOf(kPage);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].left, 5u);
  EXPECT_EQ(spans[0].known, 9u);
  EXPECT_EQ(spans[1].left, 12u);
  EXPECT_FALSE(spans[1].known.has_value());
}

}  // namespace
}  // namespace hindsight
