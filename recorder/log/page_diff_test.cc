#include "recorder/log/page_diff.h"

#include "gtest/gtest.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

TEST(PageDiffTest, FindsFirstAndLastByte) {
  std::vector<uint8_t> before(kPageBytes), after(kPageBytes);
  EXPECT_EQ(ChangedLines(before.data(), after.data()), 0u);
  after[0] = 1;
  after[kPageBytes - 1] = 2;
  after[64 * 5 + 63] = 3;
  EXPECT_EQ(ChangedLines(before.data(), after.data()), 1ull | 1ull << 5 | 1ull << 63);
  EXPECT_EQ(NonZeroLines(after.data()), 1ull | 1ull << 5 | 1ull << 63);
}

TEST(PageDiffTest, FindsEachByteAlone) {
  std::vector<uint8_t> before(kPageBytes), after(kPageBytes);
  for (size_t i = 0; i < kPageBytes; ++i) {
    after[i] = 0x80;
    EXPECT_EQ(ChangedLines(before.data(), after.data()), 1ull << i / kLineBytes) << i;
    after[i] = 0;
  }
}

TEST(PageDiffTest, GathersInOrder) {
  std::vector<uint8_t> page(kPageBytes);
  page[64 * 2] = 2;
  page[64 * 9] = 9;
  const std::vector<uint8_t> lines = GatherLines(page.data(), 1ull << 2 | 1ull << 9);
  ASSERT_EQ(lines.size(), 2 * kLineBytes);
  EXPECT_EQ(lines[0], 2);
  EXPECT_EQ(lines[64], 9);
  EXPECT_TRUE(GatherLines(page.data(), 0).empty());
}

}  // namespace
}  // namespace hindsight
