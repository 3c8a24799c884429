// Segments that refer to another one: read as if they had it all, and what is lost with that one.

#include "tracefmt/references/referenced_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "tracefmt/samples/test_trace.h"

namespace hindsight {
namespace {

using testing::HasSubstr;

constexpr uint64_t kWhole = ~uint64_t{0};

std::vector<const PageImport*> PagesOf(const Segment& segment) {
  std::vector<const PageImport*> pages;
  for (const Record& record : segment.records()) {
    if (const auto* page = std::get_if<PageImport>(&record.body)) pages.push_back(page);
  }
  return pages;
}

// A trace of segments that begin with `pages` pages each; in every one another page is as it never
// was before.
class ReferencedPagesTest : public testing::Test {
 protected:
  static constexpr uint64_t kPages = 64;

  static uint8_t FillOf(uint64_t number, uint64_t page) {
    return static_cast<uint8_t>(page == number ? 100 + number : 1 + page);
  }
  void Write(uint64_t segments) {
    for (uint64_t number = 0; number < segments; ++number) {
      const uint64_t count = number * 10;
      trace_.Begin(number, count);
      for (uint64_t page = 0; page < kPages; ++page) {
        trace_.Add(Page(count, page * kPageBytes, kWhole, FillOf(number, page)));
      }
      trace_.Add(Effect(count + 2)).End(count + 10);
    }
    trace_.Finish();
  }
  static void ExpectWhole(const Segment& segment) {
    EXPECT_TRUE(segment.damage().ok()) << segment.damage();
    const auto pages = PagesOf(segment);
    ASSERT_EQ(pages.size(), kPages);
    for (uint64_t i = 0; i < kPages; ++i) {
      EXPECT_EQ(pages[i]->address, i * kPageBytes);
      EXPECT_TRUE(pages[i]->first);
      EXPECT_EQ(pages[i]->line_mask, kWhole);
      ASSERT_EQ(pages[i]->lines.size(), kPageBytes);
      EXPECT_EQ(pages[i]->lines.front(), FillOf(segment.info().number, i));
      EXPECT_EQ(pages[i]->lines.back(), FillOf(segment.info().number, i));
    }
    EXPECT_EQ(segment.stored_records(), kPages + 2);
    EXPECT_EQ(segment.end_count(), segment.info().first_count + 10);
  }

  TestTrace trace_;
};

TEST_F(ReferencedPagesTest, ReadLikeAnyOther) {
  Write(4);
  const OpenTrace read = trace_.Read();
  for (const uint64_t number : {3, 0, 2, 1}) ExpectWhole(*read.Load(number));
  EXPECT_EQ(read->segments(kThread)[0].reference, std::nullopt);
  EXPECT_EQ(read->segments(kThread)[3].reference, 0);
}

TEST_F(ReferencedPagesTest, TakeNoRoom) {
  // Of random bytes, which do not compress.
  std::vector<uint8_t> bytes(kPages * kPageBytes);
  uint32_t random = 1;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((random = random * 1664525 + 1) >> 24);
  for (uint64_t number = 0; number < 2; ++number) {
    trace_.Begin(number, number * 10);
    for (uint64_t page = 0; page < kPages; ++page) {
      PageImport import = {.address = page * kPageBytes, .first = true, .line_mask = kWhole};
      import.lines = absl::MakeConstSpan(bytes).subspan(page * kPageBytes, kPageBytes);
      trace_.Add({number * 10, import});
    }
    trace_.End(number * 10 + 10);
  }
  trace_.Finish();
  const OpenTrace read = trace_.Read();
  EXPECT_GT(read->segments(kThread)[0].file_bytes, kPages * kPageBytes);
  EXPECT_LT(read->segments(kThread)[1].file_bytes, 1000);
  EXPECT_EQ(PagesOf(*read.Load(1))[7]->lines,
            absl::MakeConstSpan(bytes).subspan(7 * kPageBytes, kPageBytes));
}

TEST_F(ReferencedPagesTest, OutliveTheReader) {
  Write(2);
  std::shared_ptr<const Segment> segment;
  {
    const OpenTrace read = trace_.Read();
    segment = read.Load(1);
    read.Load(0);
  }
  ExpectWhole(*segment);
}

TEST_F(ReferencedPagesTest, CountAsMemoryOfWhoRefersToThem) {
  Write(2);
  EXPECT_GT(trace_.Read().Load(1)->memory_bytes(), kPages * kPageBytes);
}

TEST_F(ReferencedPagesTest, AreLostWithTheirSegment) {
  Write(2);
  std::filesystem::remove(trace_.Path("threads/1/0.seg"));
  const auto segment = trace_.Read().Load(1);
  // Two of its own, which differ.
  EXPECT_EQ(PagesOf(*segment).size(), 2);
  EXPECT_EQ(segment->end_count(), 10);
  EXPECT_EQ(segment->damage().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(segment->damage().message()),
              testing::AllOf(HasSubstr("threads/1/1.seg"), HasSubstr("page 0x2000"),
                             HasSubstr("no segment 0 of thread 1")));
}

TEST_F(ReferencedPagesTest, BeforeItsDamageAreThere) {
  // Two blocks of pages each.
  for (uint64_t number = 0; number < 2; ++number) {
    trace_.Begin(number, number * 10);
    for (uint64_t page = 0; page < 100; ++page) {
      trace_.Add(Page(number * 10, page * kPageBytes, kWhole, static_cast<uint8_t>(page + 1)));
    }
    trace_.End(number * 10 + 10);
  }
  trace_.Finish();
  const std::vector<uint64_t> blocks = trace_.BlockOffsets("threads/1/0.seg");
  ASSERT_GE(blocks.size(), 4);
  trace_.Flip("threads/1/0.seg", blocks[2] + 40);
  const auto segment = trace_.Read().Load(1);
  const size_t there = PagesOf(*segment).size();
  EXPECT_GT(there, 0);
  EXPECT_LT(there, 100);
  EXPECT_THAT(std::string(segment->damage().message()),
              testing::AllOf(HasSubstr("threads/1/1.seg"), HasSubstr("threads/1/0.seg")));
}

TEST_F(ReferencedPagesTest, WithoutAReferenceAreDamage) {
  trace_.Begin(0);
  trace_.Add({0, ReferencedPage{0x1000}}).End(5);
  trace_.Finish();
  const auto segment = trace_.Read().Load(0);
  EXPECT_EQ(segment->damage().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(segment->damage().message()), HasSubstr("it has none"));
  EXPECT_TRUE(segment->records().empty());
}

TEST_F(ReferencedPagesTest, OfTheReferenceItselfAreNotFollowed) {
  trace_.Begin(0).Add(Page(0, 0x1000)).Add({1, ReferencedPage{0x2000}}).End(5);
  trace_.Begin(1, 5).Add({5, ReferencedPage{0x1000}}).Add({6, ReferencedPage{0x2000}}).End(9);
  trace_.Finish();
  const auto segment = trace_.Read().Load(1);
  EXPECT_EQ(PagesOf(*segment).size(), 1);
  EXPECT_THAT(std::string(segment->damage().message()), HasSubstr("page 0x2000"));
}

// Imports of all kinds, several of a page, of few contents: what is read is what was written.
class RandomImports {
 public:
  explicit RandomImports(uint32_t seed) : random_(seed) {}

  PageImport Next() {
    PageImport page;
    page.address = Draw(3) * kPageBytes;
    page.first = Draw(4) != 0;
    if (Draw(6) == 0) page.module = 0;
    page.line_mask = Draw(4) == 0 ? 0 : Draw(2) == 0 ? kWhole : uint64_t{1} << Draw(3);
    if (Draw(8) == 0) page.known_mask = page.line_mask;
    page.lines = Lines(std::popcount(page.line_mask), static_cast<uint8_t>(1 + Draw(2)));
    return page;
  }
  uint32_t Draw(uint32_t below) {
    return (random_ = random_ * 1664525 + 1013904223) / 65536 % below;
  }

 private:
  uint32_t random_;
};

TEST_F(ReferencedPagesTest, OfAllKindsAreReadAsTheyWereWritten) {
  RandomImports random(1);
  std::vector<std::vector<PageImport>> written(300);
  ASSERT_EQ(*trace_.writer()->AddModule("/proc/self/exe", -1, 1 << 30), 0);
  for (uint64_t number = 0; number < written.size(); ++number) {
    trace_.Begin(number, number * 10);
    for (uint32_t left = random.Draw(8); left != 0; --left) {
      written[number].push_back(random.Next());
      trace_.Add({number * 10 + 1, written[number].back()});
    }
    trace_.End(number * 10 + 10);
  }
  trace_.Finish();
  const OpenTrace read = trace_.Read();
  int referring = 0;
  for (uint64_t number = 0; number < written.size(); ++number) {
    const auto segment = read.Load(number);
    ASSERT_TRUE(segment->damage().ok()) << segment->damage();
    const auto pages = PagesOf(*segment);
    ASSERT_EQ(pages.size(), written[number].size());
    for (size_t i = 0; i < pages.size(); ++i) {
      const PageImport &is = *pages[i], &was = written[number][i];
      EXPECT_EQ(
          std::tie(is.address, is.first, is.module, is.line_mask, is.known_mask, is.lines),
          std::tie(was.address, was.first, was.module, was.line_mask, was.known_mask, was.lines))
          << number << " " << i;
    }
    referring += segment->info().reference.has_value() ? 1 : 0;
  }
  EXPECT_GT(referring, 100);
}

TEST_F(ReferencedPagesTest, AreNotMadeOfMappedRanges) {
  const std::vector<uint64_t> used = {0x1000};
  trace_.Begin(0).Add({0, MappedRange{0x1000, 0x1000}}).Add({4, UsedPages{true, used}}).End(5);
  trace_.Begin(1, 5).Add({5, ReferencedPage{0x1000}}).End(9);
  trace_.Finish();
  EXPECT_EQ(trace_.Read().Load(1)->damage().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace hindsight
