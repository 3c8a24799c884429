#include "tracefmt/ranges/range_expansion.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

// Count, page number and file page of each import that was made: "3:7@1", or "3:7" if of zeros.
// Other records are left out.
std::vector<std::string> Made(const std::vector<Record>& records) {
  std::vector<std::string> made;
  for (const Record& record : records) {
    const auto* page = std::get_if<PageImport>(&record.body);
    if (page == nullptr || page->line_mask != 0) continue;
    EXPECT_TRUE(page->first && page->lines.empty());
    made.push_back(absl::StrCat(record.count, ":", page->address / kPageBytes));
    if (page->module >= 0) {
      absl::StrAppend(&made.back(), "@", page->module_offset / kPageBytes);
    }
  }
  return made;
}

using Strings = std::vector<std::string>;

// `pages` pages from page `first` on, of the file from its page `offset` on.
Record Range(uint64_t count, uint64_t first, uint64_t pages, int32_t module = -1,
             uint64_t offset = 0) {
  return {count, MappedRange{first * kPageBytes, pages * kPageBytes, module, offset * kPageBytes}};
}

class RangeExpansion : public testing::Test {
 protected:
  // Lists pages by their numbers.
  Record Used(uint64_t count, bool complete, const std::vector<uint64_t>& numbers) {
    auto& pages = *lists_.emplace_back(std::make_unique<std::vector<uint64_t>>());
    for (const uint64_t number : numbers) pages.push_back(number * kPageBytes);
    return {count, UsedPages{complete, pages}};
  }
  Strings Expand(std::vector<Record> records, const ExpansionLimits& limits = {},
                 uint64_t budget_bytes = 1 << 30) {
    ReadBudget budget(budget_bytes, 0);
    status_ = ExpandRanges(&budget, &records, limits);
    records_ = std::move(records);
    taken_ = budget.taken();
    return Made(records_);
  }

  std::vector<std::unique_ptr<std::vector<uint64_t>>> lists_;
  std::vector<Record> records_;
  absl::Status status_;
  uint64_t taken_ = 0;
};

TEST_F(RangeExpansion, NothingIsMadeWithoutRanges) {
  EXPECT_EQ(Expand({Page(0, 0x1000), Effect(2), Used(3, true, {1, 2})}), Strings());
  EXPECT_EQ(records_.size(), 3);
  EXPECT_EQ(taken_, 0);
}

TEST_F(RangeExpansion, UsedPagesOfARangeAreImported) {
  EXPECT_EQ(Expand({Range(3, 10, 5), Effect(4), Used(5, true, {9, 10, 12, 14, 15})}),
            (Strings{"3:10", "3:12", "3:14"}));
  EXPECT_TRUE(status_.ok());
  EXPECT_GE(taken_, 3 * sizeof(Record));
  ASSERT_EQ(records_.size(), 6);
  EXPECT_TRUE(std::holds_alternative<MappedRange>(records_[0].body));
  EXPECT_TRUE(std::holds_alternative<SideEffect>(records_[4].body));
}

TEST_F(RangeExpansion, PagesOfAFileHaveOffsetsOfTheirOwn) {
  EXPECT_EQ(Expand({Range(0, 10, 5, 0, 100), Used(5, true, {10, 13})}),
            (Strings{"0:10@100", "0:13@103"}));
}

TEST_F(RangeExpansion, EachMappingOfAPageImportsIt) {
  EXPECT_EQ(Expand({Range(1, 10, 2, 0), Range(7, 11, 2), Used(9, true, {11})}),
            (Strings{"1:11@1", "7:11"}));
}

TEST_F(RangeExpansion, AllListsCount) {
  EXPECT_EQ(Expand({Range(1, 10, 9), Used(2, false, {12, 14}), Used(4, true, {11, 12})}),
            (Strings{"1:11", "1:12", "1:14"}));
}

TEST_F(RangeExpansion, TransitionsStayLast) {
  Expand({Range(4, 10, 2), Effect(4), Used(5, true, {10, 11})});
  ASSERT_EQ(records_.size(), 5);
  EXPECT_TRUE(std::holds_alternative<SideEffect>(records_[3].body));
}

TEST_F(RangeExpansion, PagesWhoseContentsFollowAreNotImportedTwice) {
  EXPECT_EQ(Expand({Range(0, 1, 3), Page(0, 0x2000), Used(5, true, {1, 2, 3})}),
            (Strings{"0:1", "0:3"}));
}

TEST_F(RangeExpansion, WhereASegmentBeginsContentsMayComeFirst) {
  EXPECT_EQ(Expand({Page(0, 0x2000), Range(0, 1, 3), Used(5, true, {1, 2, 3})}),
            (Strings{"0:1", "0:3"}));
}

TEST_F(RangeExpansion, ContentsBeforeTheRangeOrOfAnotherStateDoNotReplaceIt) {
  EXPECT_EQ(Expand({Effect(0), Page(1, 0x2000), Range(1, 2, 1), Used(5, true, {2})}),
            (Strings{"1:2"}));
  EXPECT_EQ(Expand({Page(0, 0x2000), Effect(0), Range(1, 2, 1), Used(5, true, {2})}),
            (Strings{"1:2"}));
  EXPECT_EQ(Expand({Range(0, 2, 1), Page(1, 0x2000), Used(5, true, {2})}), (Strings{"0:2"}));
  EXPECT_EQ(Expand({Range(0, 2, 1), Effect(0), Page(0, 0x2000), Used(5, true, {2})}),
            (Strings{"0:2"}));
  Record lines = Page(0, 0x2000);
  std::get<PageImport>(lines.body).first = false;
  EXPECT_EQ(Expand({Range(0, 2, 1), lines, Used(5, true, {2})}), (Strings{"0:2"}));
}

TEST_F(RangeExpansion, ExpandingAgainChangesNothing) {
  const Strings once = Expand({Range(0, 1, 3), Range(0, 2, 3), Used(5, true, {1, 2, 3})});
  EXPECT_EQ(Expand(records_), once);
}

TEST_F(RangeExpansion, WithoutTheLastListAllPagesAreImported) {
  EXPECT_EQ(Expand({Range(0, 1, 2), Page(0, 0x2000), Range(3, 7, 2), Used(5, false, {8})}),
            (Strings{"0:1", "3:7", "3:8"}));
}

TEST_F(RangeExpansion, ButNotMoreThanTheLimit) {
  EXPECT_EQ(
      Expand({Range(0, 1, 2), Range(3, 7, uint64_t{1} << 40), Effect(4)}, {.pages_if_unknown = 4}),
      (Strings{"0:1", "0:2", "3:7", "3:8"}));
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(records_.size(), 7);
  EXPECT_EQ(Expand({Range(3, 7, uint64_t{1} << 40), Range(3, 1, 1)}).size(), 16385);
}

TEST_F(RangeExpansion, MoreUsedPagesThanTheLimitAreDamageFromThatRangeOn) {
  EXPECT_EQ(
      Expand({Range(0, 1, 2), Range(3, 1, 3), Effect(4), Used(5, true, {1, 2, 3})}, {.pages = 4}),
      (Strings{"0:1", "0:2"}));
  EXPECT_TRUE(absl::IsResourceExhausted(status_));
  EXPECT_EQ(records_.size(), 3);
}

TEST_F(RangeExpansion, PagesPassedOverCountToo) {
  EXPECT_EQ(
      Expand({Range(0, 1, 1), Range(0, 1, 1), Page(0, 0x1000), Used(5, true, {1})}, {.pages = 1}),
      Strings());
  EXPECT_TRUE(absl::IsResourceExhausted(status_));
}

TEST_F(RangeExpansion, MoreThanTheBudgetIsDamage) {
  std::vector<uint64_t> many(10000);
  for (size_t i = 0; i < many.size(); ++i) many[i] = i;
  Expand({Effect(0), Range(1, 0, many.size()), Used(5, true, many)}, {},
         many.size() * sizeof(Record) / 2);
  EXPECT_TRUE(absl::IsResourceExhausted(status_));
  EXPECT_EQ(records_.size(), 1);
}

// Page number, and file page, of the import of an unlisted page: "7@1", or "7" if of zeros.
std::string Unlisted(const std::vector<Record>& records, size_t applied, uint64_t number) {
  UnlistedPages unlisted;
  unlisted.Find(&records);
  const auto import = unlisted.ImportOf(applied, number * kPageBytes);
  if (!import.has_value()) return "none";
  const std::vector<std::string> made = Made({{0, *import}});
  return made.at(0).substr(2);
}

TEST_F(RangeExpansion, UnlistedPagesOfFilesAreInTheLastRangeBefore) {
  const std::vector<Record> records = {Range(0, 1, 3, 7, 10), Range(2, 2, 1, 8, 0), Effect(3),
                                       Used(4, true, {1})};
  EXPECT_EQ(Unlisted(records, 1, 2), "2@11");
  EXPECT_EQ(Unlisted(records, 2, 2), "2@0");
  EXPECT_EQ(Unlisted(records, 4, 3), "3@12");
  EXPECT_EQ(Unlisted(records, 4, 4), "none");
  EXPECT_EQ(Unlisted(records, 0, 1), "none") << "not mapped yet";
}

TEST_F(RangeExpansion, UnlistedPagesOfZerosAreNotUsedUnlessListsAreMissing) {
  const std::vector<Record> cut_short = {Range(0, 1, 3, 7), Range(2, 2, 1), Used(4, false, {1})};
  EXPECT_EQ(Unlisted(cut_short, 3, 2), "2");
  std::vector<Record> complete = cut_short;
  complete.push_back(Used(5, true, {}));
  EXPECT_EQ(Unlisted(complete, 4, 2), "none") << "nor what was mapped there before";
  EXPECT_EQ(Unlisted(complete, 4, 3), "3@2");
}

// What a file says comes out of the reader expanded.
TEST(RangeExpansionOfASegment, IsInWhatTheReaderReturns) {
  const std::vector<uint64_t> used = {0x1000, 0x3000};
  TestTrace trace;
  trace.Begin(0).Add(Range(0, 1, 3)).Add(Effect(2)).Add({4, UsedPages{true, used}}).End(4);
  trace.Finish();
  const auto segment = trace.Read().Load(0);
  ASSERT_TRUE(segment->damage().ok()) << segment->damage();
  EXPECT_EQ(Made(segment->records()), (Strings{"0:1", "0:3"}));
  EXPECT_EQ(segment->stored_records(), 4);
  EXPECT_EQ(segment->end_count(), 4);
  EXPECT_NE(segment->end_registers(), nullptr);
}

TEST(RangeExpansionOfASegment, CutShort) {
  TestTrace trace;
  trace.Begin(0).Add(Range(0, 1, 3)).Add(Effect(2)).Flush();
  EXPECT_EQ(Made(trace.Read().Load(0)->records()).size(), 3);  // still being written
  trace.Abandon();
  const auto segment = trace.Read().Load(0);
  EXPECT_TRUE(segment->damage().ok());
  EXPECT_EQ(Made(segment->records()).size(), 3);
  EXPECT_EQ(segment->end_count(), 3);
}

}  // namespace
}  // namespace hindsight
