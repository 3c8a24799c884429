// Pages of a mapping are used where they have been written to or read, whichever way the kernel is
// asked.

#include "recorder/translate/view/kernel_page_map.h"

#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <vector>

namespace hindsight {
namespace {

constexpr uint64_t kPage = 4096;

// Whether they are the process's own, by number in the mapping.
using Used = std::map<uint64_t, bool>;

class KernelPageMapTest : public testing::TestWithParam<bool> {
 protected:
  KernelPageMapTest() { KernelPageMap::SetScans(GetParam()); }
  ~KernelPageMapTest() override { KernelPageMap::SetScans(true); }

  static uint8_t* Map(uint64_t pages, int flags, int file) {
    void* const at = mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE, flags, file, 0);
    EXPECT_NE(at, MAP_FAILED);
    madvise(at, pages * kPage, MADV_NOHUGEPAGE);
    return static_cast<uint8_t*>(at);
  }

  static Used UsedOf(const uint8_t* start, uint64_t pages) {
    const auto first = reinterpret_cast<uint64_t>(start);
    Used used;
    KernelPageMap table;
    EXPECT_TRUE(table.ForEachUsed(first, first + pages * kPage, [&](uint64_t page, bool is_own) {
      EXPECT_TRUE(used.empty() || (page - first) / kPage > used.rbegin()->first);
      used[(page - first) / kPage] = is_own;
    }));
    return used;
  }
};

TEST_P(KernelPageMapTest, WhatHasNotBeenTouchedIsNotUsed) {
  uint8_t* const memory = Map(5000, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  EXPECT_TRUE(UsedOf(memory, 5000).empty());
  memory[3 * kPage] = 1;
  memory[4 * kPage + 8] = 1;
  memory[4999 * kPage] = 1;
  const volatile uint8_t read = memory[1000 * kPage];  // zeros
  EXPECT_EQ(read, 0);
  EXPECT_EQ(UsedOf(memory, 5000), (Used{{3, true}, {4, true}, {1000, true}, {4999, true}}));
  munmap(memory, 5000 * kPage);
}

// Also as many as the kernel collects in two parts, after the second of which it says where the
// first one ended.
TEST_P(KernelPageMapTest, MoreRunsThanFitAtOnce) {
  for (const uint64_t runs : {511, 512, 513, 700, 1023, 1024, 1025, 1600, 4501}) {
    SCOPED_TRACE(runs);
    const uint64_t pages = 8 * runs;
    uint8_t* const memory = Map(pages, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    Used written;
    for (uint64_t i = 0; i < pages; i += 8) {
      memory[i * kPage] = 1;
      written[i] = true;
    }
    EXPECT_EQ(UsedOf(memory, pages), written);
    munmap(memory, pages * kPage);
  }
}

TEST_P(KernelPageMapTest, PagesOfAFileAreOwnOnceTheyHaveBeenWrittenTo) {
  char name[] = "/tmp/kernel_page_map_test.XXXXXX";
  const int file = mkstemp(name);
  ASSERT_GE(file, 0);
  unlink(name);
  ASSERT_EQ(ftruncate(file, 64 * kPage), 0);
  uint8_t* const memory = Map(64, MAP_PRIVATE, file);
  // Otherwise the kernel brings their neighbours.
  madvise(memory, 64 * kPage, MADV_RANDOM);
  const volatile uint8_t read = memory[40 * kPage];
  EXPECT_EQ(read, 0);
  memory[7 * kPage] = 1;
  const Used used = UsedOf(memory, 64);
  EXPECT_TRUE(used.at(7));
  EXPECT_FALSE(used.at(40));
  munmap(memory, 64 * kPage);
  close(file);
}

TEST_P(KernelPageMapTest, ThereIsNothingAtAll) { EXPECT_TRUE(UsedOf(nullptr, 16).empty()); }

INSTANTIATE_TEST_SUITE_P(EachWay, KernelPageMapTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Scanned" : "Read"; });

}  // namespace
}  // namespace hindsight
