#include "emulator/cpu/watchpoints.h"

#include <gtest/gtest.h>

#include <map>

namespace hindsight {
namespace {

constexpr uint64_t kAt = 0x1000;

class WatchpointsTest : public testing::Test {
 protected:
  std::vector<size_t> Reads(uint64_t address, uint32_t size) {
    std::vector<size_t> hits;
    watchpoints_.FindRead(address, size,
                          [&](const Watchpoints::Hit& hit) { hits.push_back(hit.index); });
    return hits;
  }
  std::vector<Watchpoints::Hit> Writes(uint64_t address, uint32_t size, uint64_t value) {
    std::vector<Watchpoints::Hit> hits;
    watchpoints_.FindWrite(
        address, size, value,
        [this](uint64_t at) -> std::optional<uint8_t> {
          if (at >= faults_from_) return std::nullopt;
          return memory_[at];
        },
        [&](const Watchpoints::Hit& hit) { hits.push_back(hit); });
    return hits;
  }

  Watchpoints watchpoints_;
  std::map<uint64_t, uint8_t> memory_;
  uint64_t faults_from_ = ~uint64_t{0};
};

using Hits = std::vector<Watchpoints::Hit>;

TEST_F(WatchpointsTest, NoneSetTouchesNothing) {
  EXPECT_TRUE(watchpoints_.empty());
  EXPECT_FALSE(watchpoints_.MayTouch(0, 8));
  EXPECT_FALSE(watchpoints_.MayTouch(kAt, 8));
}

TEST_F(WatchpointsTest, MayTouchCoversAllFromTheLowestToTheHighest) {
  watchpoints_.Set({{kAt, 4}, {kAt + 0x100, 1}});
  EXPECT_FALSE(watchpoints_.MayTouch(kAt - 8, 8));
  EXPECT_TRUE(watchpoints_.MayTouch(kAt - 8, 9));
  EXPECT_TRUE(watchpoints_.MayTouch(kAt + 0x50, 1));
  EXPECT_FALSE(watchpoints_.MayTouch(kAt + 0x101, 8));
}

TEST_F(WatchpointsTest, AWriteHitsOnlyIfItChangesAWatchedByte) {
  watchpoints_.Set({{kAt + 2, 2}});
  EXPECT_EQ(Writes(kAt, 8, 0), Hits());
  EXPECT_EQ(Writes(kAt, 8, 0xffff'ffff'0000'ffff), Hits());
  EXPECT_EQ(Writes(kAt, 8, 0x0100'0000), Hits({{0, kAt + 2}}));
  memory_[kAt + 3] = 1;
  EXPECT_EQ(Writes(kAt, 8, 0x0100'0000), Hits());
}

TEST_F(WatchpointsTest, AWriteThatWillFaultHitsNothing) {
  watchpoints_.Set({{kAt, 8}});
  faults_from_ = kAt;
  EXPECT_EQ(Writes(kAt, 8, 1), Hits());
}

TEST_F(WatchpointsTest, AReadHitsReadWatchpointsOnly) {
  watchpoints_.Set({{.address = kAt, .length = 8},
                    {.address = kAt, .length = 8, .on_write = false, .on_read = true}});
  EXPECT_EQ(Reads(kAt + 4, 1), std::vector<size_t>({1}));
  EXPECT_EQ(Writes(kAt + 4, 1, 1), Hits({{0, kAt + 4}}));
}

TEST_F(WatchpointsTest, AStoreHitsWhetherOrNotItChangesAnything) {
  watchpoints_.Set({{.address = kAt + 2, .length = 8, .on_write = false, .on_store = true}});
  EXPECT_EQ(Writes(kAt, 8, 0), Hits({{0, kAt + 2, 6}}));
  EXPECT_EQ(Writes(kAt + 8, 8, 0), Hits({{0, kAt + 8, 2}}));
  EXPECT_EQ(Writes(kAt + 4, 1, 0), Hits({{0, kAt + 4, 1}}));
  EXPECT_EQ(Writes(kAt + 10, 8, 0), Hits());
  EXPECT_EQ(Reads(kAt + 4, 1), std::vector<size_t>());
  faults_from_ = kAt;
  EXPECT_EQ(Writes(kAt, 8, 0), Hits());
}

TEST_F(WatchpointsTest, AStoreThatChangesNothingIsSaidToBeSilent) {
  watchpoints_.Set({{.address = kAt, .length = 8, .on_store = true}, {kAt, 8}});
  EXPECT_EQ(Writes(kAt, 4, 0), Hits({{0, kAt, 4, /*silent=*/true}}));
  EXPECT_EQ(Writes(kAt, 4, 1), Hits({{0, kAt, 4}, {1, kAt}}));
}

TEST_F(WatchpointsTest, AllThatAreHitAreReported) {
  watchpoints_.Set({{kAt, 1}, {kAt + 1, 1}, {kAt + 8, 1}});
  EXPECT_EQ(Writes(kAt, 8, 0x101), Hits({{0, kAt}, {1, kAt + 1}}));
}

}  // namespace
}  // namespace hindsight
