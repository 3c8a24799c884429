#include "keyframes/replay/watched_memory.h"

#include <array>
#include <vector>

#include "gtest/gtest.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 0x5000;

class WatchedMemoryTest : public testing::Test {
 protected:
  // Bytes at `address` change from zeros to ones.
  void Change(uint64_t address, size_t size, uint64_t known_mask = 0) {
    const std::vector<uint8_t> before(size, 0), after(size, 1);
    watched_.NoteChange(/*count=*/10, address, before.data(), after, known_mask);
  }

  WatchedMemory watched_;
};

TEST_F(WatchedMemoryTest, TheFirstChangedByteOfAWatchedRangeIsAHit) {
  watched_.SetWatchpoints({{.address = kPage + 0x100, .length = 8}});
  Change(kPage + 0xfc, 16);
  ASSERT_TRUE(watched_.change().has_value());
  EXPECT_EQ(watched_.change()->address, kPage + 0x100);
  EXPECT_EQ(watched_.change()->count, 9u);
}

TEST_F(WatchedMemoryTest, WhatLiesBesideIsNoHit) {
  watched_.SetWatchpoints({{.address = kPage + 0x100, .length = 8}});
  Change(kPage + 0xf0, 16);
  Change(kPage + 0x108, 16);
  EXPECT_FALSE(watched_.change().has_value());
}

TEST_F(WatchedMemoryTest, EqualBytesAreNoHit) {
  watched_.SetWatchpoints({{.address = kPage, .length = 8}});
  const std::array<uint8_t, 8> same = {1, 2, 3};
  watched_.NoteChange(10, kPage, same.data(), same, 0);
  EXPECT_FALSE(watched_.change().has_value());
}

TEST_F(WatchedMemoryTest, LinesThatAnotherThreadHadAreNoHit) {
  watched_.SetWatchpoints({{.address = kPage, .length = 2 * kLineBytes}});
  Change(kPage, 2 * kLineBytes, /*known_mask=*/1);
  ASSERT_TRUE(watched_.change().has_value());
  EXPECT_EQ(watched_.change()->address, kPage + kLineBytes);
}

TEST_F(WatchedMemoryTest, ReadWatchpointsSeeNoChanges) {
  watched_.SetWatchpoints({{.address = kPage, .length = 8, .on_write = false, .on_read = true}});
  Change(kPage, 8);
  EXPECT_FALSE(watched_.change().has_value());
}

TEST_F(WatchedMemoryTest, APageThatComesInIsKeptForComparison) {
  watched_.SetWatchpoints({{.address = kPage + kPageBytes - 4, .length = 8}});
  const std::vector<uint8_t> contents(kPageBytes, 7);
  watched_.NotePage(10, kPage, contents.data(), /*known_mask=*/2);
  watched_.NotePage(10, kPage - kPageBytes, contents.data(), 0);
  ASSERT_EQ(watched_.imports().size(), 1u);
  EXPECT_EQ(watched_.imports()[0].bytes, "\7\7\7\7");
  EXPECT_EQ(watched_.imports()[0].known_mask, 2u);
  watched_.Clear();
  EXPECT_TRUE(watched_.imports().empty());
}

TEST(FirstNewByte, SkipsLinesThatAreKnown) {
  const Watchpoint watchpoint = {.address = kPage + kLineBytes - 1, .length = 3};
  const WatchedImport import = {.page = kPage, .bytes = "abc", .known_mask = 1};
  EXPECT_EQ(FirstNewByte(import, watchpoint, "xbc"), std::nullopt);
  EXPECT_EQ(FirstNewByte(import, watchpoint, "xbx"), 2u);
}

}  // namespace
}  // namespace hindsight
