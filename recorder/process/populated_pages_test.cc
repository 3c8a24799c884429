#include "recorder/process/populated_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

class PopulatedPagesByMethodTest : public testing::TestWithParam<PopulatedPages::Method> {
 protected:
  // Reserves address space; returns its start.
  uint64_t Map(uint64_t bytes, int fd = -1) {
    const int flags = MAP_PRIVATE | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
    void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    EXPECT_NE(start, MAP_FAILED);
    madvise(start, bytes, MADV_NOHUGEPAGE);
    mapped_.push_back({start, bytes});
    return reinterpret_cast<uint64_t>(start);
  }
  ~PopulatedPagesByMethodTest() override {
    for (const auto& [start, bytes] : mapped_) munmap(start, bytes);
  }
  std::vector<PopulatedRange> Find(uint64_t start, uint64_t bytes) {
    auto found = pages_.Find(start, start + bytes);
    EXPECT_TRUE(found.has_value());
    return found.value_or(std::vector<PopulatedRange>());
  }
  static void Touch(uint64_t address) { *reinterpret_cast<volatile char*>(address) = 1; }

  PopulatedPages pages_{"/proc/self/pagemap", GetParam()};
  std::vector<std::pair<void*, uint64_t>> mapped_;
};

TEST_P(PopulatedPagesByMethodTest, FindsTouchedPagesOnly) {
  const uint64_t start = Map(2000 * kPageBytes);
  EXPECT_TRUE(Find(start, 2000 * kPageBytes).empty());
  Touch(start + 3 * kPageBytes);
  Touch(start + 4 * kPageBytes);
  Touch(start + 1999 * kPageBytes);
  const std::vector<PopulatedRange> expected = {
      {start + 3 * kPageBytes, start + 5 * kPageBytes, true},
      {start + 1999 * kPageBytes, start + 2000 * kPageBytes, true}};
  EXPECT_EQ(Find(start, 2000 * kPageBytes), expected);
}

TEST_P(PopulatedPagesByMethodTest, FindsMoreRangesThanAreFetchedAtOnce) {
  for (const uint64_t ranges : {511, 512, 513, 700, 1023, 1024, 1025, 1600}) {
    const uint64_t start = Map(8 * ranges * kPageBytes);
    std::vector<PopulatedRange> expected;
    for (uint64_t page = start; expected.size() < ranges; page += 8 * kPageBytes) {
      Touch(page);
      expected.push_back({page, page + kPageBytes, true});
    }
    EXPECT_EQ(Find(start, 8 * ranges * kPageBytes), expected) << ranges;
  }
}

TEST_P(PopulatedPagesByMethodTest, ZerosThatWereOnlyReadAreNoContents) {
  const uint64_t start = Map(600 * kPageBytes);
  EXPECT_FALSE(pages_.HasContents(start, start + 600 * kPageBytes));
  volatile char read_only = *reinterpret_cast<volatile char*>(start + 7 * kPageBytes);
  (void)read_only;
  EXPECT_FALSE(pages_.HasContents(start, start + 600 * kPageBytes));
  Touch(start + 599 * kPageBytes);
  const bool known = GetParam() == PopulatedPages::Method::kScan;
  EXPECT_EQ(pages_.HasContents(start, start + 600 * kPageBytes), known);
  EXPECT_FALSE(pages_.HasContents(start, start + 599 * kPageBytes));
}

TEST_P(PopulatedPagesByMethodTest, TellsOwnCopiesFromTheFilesPages) {
  const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  const uint64_t start = Map(4 * kPageBytes, fd);
  close(fd);
  volatile char read_only = *reinterpret_cast<volatile char*>(start + kPageBytes);
  (void)read_only;
  Touch(start + 2 * kPageBytes);
  bool file_page = false, own_page = false;
  for (const PopulatedRange& range : Find(start, 4 * kPageBytes)) {
    if (range.start <= start + kPageBytes && start + kPageBytes < range.end) {
      file_page = !range.own_copy;
    }
    if (range.start == start + 2 * kPageBytes) own_page = range.own_copy;
  }
  EXPECT_TRUE(file_page);
  EXPECT_TRUE(own_page);
}

TEST_P(PopulatedPagesByMethodTest, HugeReservationsCostNoTime) {
  const uint64_t bytes = uint64_t{16} << 40;
  const uint64_t start = Map(bytes);
  const auto found = pages_.Find(start, start + bytes);
  EXPECT_TRUE(!found.has_value() || found->empty());
}

TEST(PopulatedPagesTest, WhatCannotBeLookedAtIsNotEmpty) {
  for (const auto method : {PopulatedPages::Method::kScan, PopulatedPages::Method::kRead}) {
    PopulatedPages pages("/nonexistent/pagemap", method);
    EXPECT_FALSE(pages.Find(0x10000, 0x20000).has_value());
  }
  PopulatedPages old("/proc/self/pagemap", PopulatedPages::Method::kRead);
  EXPECT_FALSE(old.Find(0, 2 * PopulatedPages::kLongestRead).has_value());
}

INSTANTIATE_TEST_SUITE_P(Methods, PopulatedPagesByMethodTest,
                         testing::Values(PopulatedPages::Method::kScan,
                                         PopulatedPages::Method::kRead));

}  // namespace
}  // namespace hindsight
