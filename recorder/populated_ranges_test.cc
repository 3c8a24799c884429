#include "recorder/populated_ranges.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/unique_fd.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 4096;

class PopulatedRangesTest : public testing::Test {
 protected:
  void SetUp() override {
    pagemap_ = UniqueFd(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(pagemap_.valid());
    memory_ = mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory_, MAP_FAILED);
    madvise(memory_, kSize, MADV_NOHUGEPAGE);
    start_ = reinterpret_cast<uint64_t>(memory_);
    whole_ = {{start_, start_ + kSize}};
  }
  void TearDown() override { munmap(memory_, kSize); }
  void Touch(uint64_t page) { static_cast<volatile char*>(memory_)[page * kPage] = 1; }
  std::vector<AddressRange> Ranges() {
    return PopulatedRanges(pagemap_.get(), start_, start_ + kSize);
  }

  static constexpr uint64_t kSize = uint64_t{1} << 40;
  UniqueFd pagemap_;
  void* memory_ = nullptr;
  uint64_t start_ = 0;
  std::vector<AddressRange> whole_;
};

TEST_F(PopulatedRangesTest, FindsWhatWasTouchedInATerabyte) {
  if (Ranges() == whole_) GTEST_SKIP() << "this kernel cannot tell";
  EXPECT_TRUE(Ranges().empty());
  std::vector<AddressRange> expected;
  // More than one call's worth, and two pages that make one range.
  for (uint64_t i = 0; i < 100; ++i) {
    Touch(i * 1000);
    expected.push_back({start_ + i * 1000 * kPage, start_ + (i * 1000 + 1) * kPage});
  }
  Touch(1);
  expected[0].end += kPage;
  EXPECT_EQ(Ranges(), expected);
}

TEST_F(PopulatedRangesTest, WithoutAnAnswerAllMayBePopulated) {
  EXPECT_EQ(PopulatedRanges(-1, start_, start_ + kSize), whole_);
}

}  // namespace
}  // namespace hindsight
