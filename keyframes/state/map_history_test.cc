#include "keyframes/state/map_history.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kPage = 0x1000;

MapRegion Region(uint64_t first, uint64_t end, uint32_t protection = 1) {
  return {.start = first * kPage, .end = end * kPage, .protection = protection};
}

ProcessEvent Part(uint64_t first, uint64_t end, std::vector<MapRegion> maps) {
  return {.kind = EventKind::kMapPart,
          .arguments = {first * kPage, end * kPage},
          .maps = std::move(maps)};
}

std::vector<MapRegion> MapAt(const MapHistory& history, uint64_t moment) {
  std::vector<MapRegion> maps;
  const std::shared_ptr<const RegionList> regions = history.At(moment);
  for (const MapRegion* region : *regions) maps.push_back(*region);
  return maps;
}

TEST(MapHistoryTest, WithoutAMapThereIsNone) {
  const MapHistory history;
  EXPECT_EQ(history.VersionAt(7), 0);
  EXPECT_TRUE(history.At(7)->empty());
  EXPECT_EQ(history.Find(7, 0), nullptr);
  EXPECT_EQ(history.StackAt(7), nullptr);
}

TEST(MapHistoryTest, AMapHoldsFromItsMomentOn) {
  const std::vector<MapRegion> first = {Region(1, 2)}, second = {Region(3, 4)};
  MapHistory history;
  history.AddWhole(10, first);
  history.AddWhole(20, second);
  EXPECT_EQ(MapAt(history, 9), std::vector<MapRegion>());
  EXPECT_EQ(MapAt(history, 10), first);
  EXPECT_EQ(MapAt(history, 19), first);
  EXPECT_EQ(MapAt(history, 20), second);
  EXPECT_EQ(history.Find(19, kPage), &first[0]);
  EXPECT_EQ(history.Find(20, kPage), nullptr);
}

TEST(MapHistoryTest, APartTakesAwayAndPuts) {
  const std::vector<MapRegion> whole = {Region(1, 2), Region(3, 4), Region(8, 9)};
  const ProcessEvent part = Part(1, 6, {Region(2, 5, 3)});
  MapHistory history;
  history.AddWhole(0, whole);
  history.AddPart(5, part);
  EXPECT_EQ(MapAt(history, 4), whole);
  EXPECT_EQ(MapAt(history, 5), std::vector<MapRegion>({Region(2, 5, 3), Region(8, 9)}));
  EXPECT_EQ(history.Find(5, kPage), nullptr);
  EXPECT_EQ(history.Find(5, 4 * kPage), &part.maps[0]);
  EXPECT_EQ(history.Find(4, 3 * kPage), &whole[1]);
}

TEST(MapHistoryTest, OfARegionCoveredInPartTheRestStays) {
  MapRegion file = Region(1, 10);
  file.inode = 7;
  file.file_offset = 5 * kPage;
  const std::vector<MapRegion> whole = {file};
  const ProcessEvent part = Part(4, 6, {});
  MapHistory history;
  history.AddWhole(0, whole);
  history.AddPart(1, part);
  MapRegion below = file, above = file;
  below.end = 4 * kPage;
  above.start = 6 * kPage;
  above.file_offset = 10 * kPage;
  EXPECT_EQ(MapAt(history, 1), std::vector<MapRegion>({below, above}));
  ASSERT_NE(history.Find(1, 6 * kPage), nullptr);
  EXPECT_EQ(*history.Find(1, 6 * kPage), above);
  EXPECT_EQ(history.Find(1, 5 * kPage), nullptr);
}

TEST(MapHistoryTest, APartOfAnUnknownMapIsNoMap) {
  const ProcessEvent part = Part(4, 6, {Region(4, 5)});
  MapHistory history;
  history.AddPart(3, part);
  EXPECT_EQ(history.VersionAt(3), 0);
  EXPECT_TRUE(history.At(3)->empty());
}

TEST(MapHistoryTest, WholeMapsThatCannotBeAreMended) {
  const std::vector<MapRegion> whole = {Region(3, 5), Region(1, 2), Region(4, 6),
                                        Region(7, 7), Region(9, 8), Region(8, 9)};
  MapHistory history;
  history.AddWhole(0, whole);
  EXPECT_EQ(MapAt(history, 0), std::vector<MapRegion>({Region(3, 5), Region(8, 9)}));
}

// Each rest of a region has a copy of its name.
TEST(MapHistoryTest, NamesOfRestsDoNotFillMemory) {
  MapRegion large = Region(0, 100'000);
  large.name = std::string(1 << 20, 'x');
  const std::vector<MapRegion> whole = {large};
  std::deque<ProcessEvent> parts;
  MapHistory history;
  history.AddWhole(0, whole);
  for (uint64_t i = 1; i < 1000; ++i) {
    history.AddPart(i, parts.emplace_back(Part(100 * i, 100 * i + 1, {})));
  }
  size_t bytes = 0;
  const std::shared_ptr<const RegionList> regions = history.At(1000);
  for (const MapRegion* region : *regions) bytes += region->name.size();
  EXPECT_LE(bytes, size_t{32} << 20);
  EXPECT_EQ(regions->size(), 1000);
}

TEST(MapHistoryTest, TheStackIsFollowed) {
  MapRegion small = Region(20, 21), large = Region(18, 21);
  small.name = large.name = "[stack]";
  const std::vector<MapRegion> whole = {Region(1, 2), small};
  const ProcessEvent grown = Part(18, 21, {large}), gone = Part(18, 21, {});
  MapHistory history;
  history.AddWhole(0, whole);
  history.AddPart(1, grown);
  history.AddPart(2, gone);
  EXPECT_EQ(history.StackAt(0), &whole[1]);
  EXPECT_EQ(history.StackAt(1), &grown.maps[0]);
  EXPECT_EQ(history.StackAt(2), nullptr);
}

// Against a map of single pages, over many changes: backward, forward and from several threads.
class Scramble {
 public:
  explicit Scramble(uint32_t seed) : random_(seed) {
    for (uint64_t moment = 0; moment < kMoments; ++moment) {
      moment % 400 == 0 ? AddWhole(moment) : AddPart(moment);
      truth_.push_back(pages_);
    }
  }

  void Check(uint64_t moment) const {
    const auto& truth = truth_[moment];
    size_t pages = 0;
    const std::shared_ptr<const RegionList> regions = history_.At(moment);
    for (const MapRegion* region : *regions) {
      for (uint64_t at = region->start; at < region->end; at += kPage, ++pages) {
        const auto found = truth.find(at / kPage);
        ASSERT_TRUE(found != truth.end() && found->second == region->protection) << moment;
      }
    }
    ASSERT_EQ(pages, truth.size()) << moment;
    for (uint64_t page = 0; page < kPages; page += 7) {
      const MapRegion* region = history_.Find(moment, page * kPage);
      const auto found = truth.find(page);
      ASSERT_EQ(region != nullptr, found != truth.end()) << moment << " " << page;
      if (region == nullptr) continue;
      ASSERT_EQ(region->protection, found->second);
    }
  }

  static constexpr uint64_t kMoments = 2000, kPages = 300;

 private:
  std::vector<MapRegion> RandomRegions(uint64_t first, uint64_t end) {
    std::vector<MapRegion> regions;
    for (uint64_t at = first; at < end;) {
      const uint64_t to = std::min(end, at + 1 + random_() % 6);
      if (random_() % 3 != 0) regions.push_back(Region(at, to, 1 + random_() % 1000));
      at = to;
    }
    return regions;
  }
  void Put(uint64_t first, uint64_t end, const std::vector<MapRegion>& regions) {
    pages_.erase(pages_.lower_bound(first), pages_.lower_bound(end));
    for (const MapRegion& region : regions) {
      for (uint64_t at = region.start; at < region.end; at += kPage) {
        pages_[at / kPage] = region.protection;
      }
    }
  }
  void AddWhole(uint64_t moment) {
    wholes_.push_back(RandomRegions(0, kPages));
    Put(0, kPages, wholes_.back());
    history_.AddWhole(moment, wholes_.back());
  }
  void AddPart(uint64_t moment) {
    ProcessEvent& part = parts_.emplace_back();
    part.kind = EventKind::kMapPart;
    uint64_t at = random_() % kPages;
    for (int i = 0; i < 2; ++i) {
      const uint64_t end = std::min<uint64_t>(kPages, at + 1 + random_() % 20);
      if (at >= end) break;
      const std::vector<MapRegion> regions = RandomRegions(at, end);
      Put(at, end, regions);
      part.arguments.insert(part.arguments.end(), {at * kPage, end * kPage});
      part.maps.insert(part.maps.end(), regions.begin(), regions.end());
      at = end + random_() % 20;
    }
    history_.AddPart(moment, part);
  }

  std::mt19937 random_;
  MapHistory history_;
  std::deque<ProcessEvent> parts_;
  std::deque<std::vector<MapRegion>> wholes_;
  std::map<uint64_t, uint32_t> pages_;
  std::vector<std::map<uint64_t, uint32_t>> truth_;
};

TEST(MapHistoryTest, ManyChangesLeaveTheMapThatTheyMake) {
  for (const uint32_t seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    const Scramble scramble(seed);
    for (uint64_t moment = 0; moment < Scramble::kMoments; ++moment) scramble.Check(moment);
    for (uint64_t moment = Scramble::kMoments; moment-- > 0;) scramble.Check(moment);
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < 4; ++i) {
      threads.emplace_back([&scramble, i] {
        for (uint64_t moment = i; moment < Scramble::kMoments; moment += 4) scramble.Check(moment);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace hindsight
