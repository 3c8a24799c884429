#include "recorder/process/address_space.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "recorder/process/memory_map.h"

namespace hindsight {
namespace {

constexpr int kRead = PROT_READ;
constexpr int kWrite = PROT_READ | PROT_WRITE;

// Regions of the given pages of files, one after the other in memory.
class Map {
 public:
  Map& Shared(uint64_t inode, uint64_t first, uint64_t pages, int protection) {
    return Add(inode, first, pages, protection, /*shared=*/true);
  }
  Map& Private(uint64_t inode, uint64_t first, uint64_t pages) {
    return Add(inode, first, pages, kWrite, /*shared=*/false);
  }

  // For each region whether it is uncached, if no other process maps anything.
  std::vector<bool> Uncached() const { return All(&AddressSpace::uncached); }
  std::vector<bool> Follows() const { return All(&AddressSpace::follows); }

 private:
  std::vector<bool> All(bool (AddressSpace::*is)(const MapRegion&) const) const {
    const AddressSpace space(MemoryMap(regions_), [](const MapRegion&) { return false; });
    std::vector<bool> all;
    for (const MapRegion& region : regions_) all.push_back((space.*is)(region));
    return all;
  }
  Map& Add(uint64_t inode, uint64_t first, uint64_t pages, int protection, bool shared) {
    MapRegion region;
    region.start = regions_.empty() ? 0x10000 : regions_.back().end;
    region.end = region.start + pages * 4096;
    region.protection = protection;
    region.shared = shared;
    region.file_offset = first * 4096;
    region.inode = inode;
    region.name = "/tmp/file";
    regions_.push_back(std::move(region));
    return *this;
  }

  std::vector<MapRegion> regions_;
};

using Bools = std::vector<bool>;

TEST(AddressSpaceTest, PagesOfAFileAtTwoAddressesAreUncached) {
  EXPECT_EQ(Map().Shared(7, 0, 4, kWrite).Shared(7, 3, 4, kWrite).Uncached(), Bools({true, true}));
  EXPECT_EQ(Map().Shared(7, 3, 4, kWrite).Shared(7, 0, 4, kWrite).Uncached(), Bools({true, true}));
  EXPECT_EQ(Map().Shared(7, 0, 1, kWrite).Shared(7, 0, 1, kWrite).Uncached(), Bools({true, true}));
}

TEST(AddressSpaceTest, NeighboursAndOtherFilesAreNot) {
  EXPECT_EQ(Map().Shared(7, 0, 4, kWrite).Shared(7, 4, 4, kWrite).Uncached(),
            Bools({false, false}));
  EXPECT_EQ(Map().Shared(7, 0, 4, kWrite).Shared(8, 0, 4, kWrite).Uncached(),
            Bools({false, false}));
}

TEST(AddressSpaceTest, WhereItCannotBeWrittenItIsNot) {
  EXPECT_EQ(Map().Shared(7, 0, 4, kRead).Shared(7, 1, 2, kWrite).Uncached(), Bools({false, true}));
  EXPECT_EQ(Map().Shared(7, 1, 2, kWrite).Shared(7, 0, 4, kRead).Uncached(), Bools({true, false}));
  EXPECT_EQ(Map().Shared(7, 0, 4, kRead).Shared(7, 1, 2, kRead).Uncached(), Bools({false, false}));
}

TEST(AddressSpaceTest, PrivateMappingsShowWhatIsStoredToTheirFile) {
  Map map;
  map.Shared(7, 0, 4, kWrite).Private(7, 3, 4).Private(8, 0, 4).Shared(8, 0, 4, kRead);
  EXPECT_EQ(map.Uncached(), Bools({true, false, false, false}));
  EXPECT_EQ(map.Follows(), Bools({false, true, false, false}));
  // Not that page, but it is of the file.
  EXPECT_EQ(Map().Shared(7, 0, 4, kWrite).Private(7, 4, 4).Uncached(), Bools({false, false}));
}

TEST(AddressSpaceTest, OfManyOnlyThoseThatOverlap) {
  EXPECT_EQ(Map()
                .Shared(7, 0, 10, kRead)   // seen at 8 as well, but not written here
                .Shared(7, 2, 1, kWrite)   // inside the first
                .Shared(7, 8, 4, kWrite)   // overlaps the first
                .Shared(7, 11, 2, kWrite)  // overlaps the one before
                .Shared(7, 20, 1, kWrite)  // nothing
                .Shared(8, 8, 1, kWrite)   // another file
                .Uncached(),
            Bools({false, true, true, true, false, false}));
}

TEST(AddressSpaceTest, WhatOthersMayWriteIsUncached) {
  MapRegion region;
  region.start = 0x1000;
  region.end = 0x2000;
  region.shared = true;
  const AddressSpace space(MemoryMap({region}), [](const MapRegion&) { return true; });
  EXPECT_TRUE(space.uncached(region));
  EXPECT_TRUE(space.has_shared());
}

TEST(AddressSpaceTest, WhatOthersMayWriteIsAskedAnew) {
  MapRegion region;
  region.start = 0x1000;
  region.end = 0x2000;
  region.shared = true;
  bool others = false;
  AddressSpace space(MemoryMap({region}), [&](const MapRegion&) { return others; });
  const uint64_t before = space.version();
  others = true;
  EXPECT_FALSE(space.uncached(region));
  space.UpdateChangedElsewhere();
  EXPECT_TRUE(space.uncached(region));
  ASSERT_EQ(space.ChangedSince(before).size(), 1);
  EXPECT_EQ(space.ChangedSince(before)[0].start, 0x1000);
  EXPECT_EQ(space.ChangedSince(before)[0].end, 0x2000);
  EXPECT_TRUE(space.ChangedSince(space.version()).empty());
}

TEST(AddressSpaceTest, WhoComesLateLooksAtEverything) {
  AddressSpace space;
  for (uint64_t i = 1; i <= 10'000; ++i) space.Replace({i * 0x1000, (i + 1) * 0x1000, {}});
  ASSERT_EQ(space.ChangedSince(0).size(), 1);
  EXPECT_EQ(space.ChangedSince(0)[0].start, 0);
  EXPECT_EQ(space.ChangedSince(0)[0].end, ~uint64_t{0});
  ASSERT_EQ(space.ChangedSince(9'998).size(), 2);
  EXPECT_EQ(space.ChangedSince(9'998)[0].start, 10'000 * 0x1000);
}

// This process plays the recorded one: a page-aligned area whose mappings change in all ways.
class LiveArea {
 public:
  static constexpr uint64_t kPages = 64, kPage = 4096;

  LiveArea() {
    area_ = static_cast<uint8_t*>(
        mmap(nullptr, kPages * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    files_[0] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    files_[1] = memfd_create("area", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(files_[1], kPages * kPage), 0);
  }
  ~LiveArea() {
    for (const int file : files_) close(file);
    munmap(area_, kPages * kPage);
  }

  // Returns where.
  AddressSpace::Range Change() {
    const uint64_t first = random_() % kPages, pages = 1 + random_() % (kPages - first);
    uint8_t* const at = area_ + first * kPage;
    const int protection = static_cast<int>(random_() % 4);  // of PROT_READ and PROT_WRITE
    const auto offset = static_cast<off_t>(random_() % kPages * kPage);
    const auto map = [&](int protection, int flags, int file) {
      mmap(at, pages * kPage, protection, flags | MAP_FIXED, file, file < 0 ? 0 : offset);
    };
    switch (random_() % 8) {
      case 0:
        munmap(at, pages * kPage);
        break;
      case 1:
        map(protection, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        break;
      case 2:
        map(PROT_READ, MAP_PRIVATE, files_[0]);
        break;
      case 3:
        map(protection, MAP_SHARED | MAP_ANONYMOUS, -1);
        break;
      case 4:
        map(protection, MAP_SHARED, files_[1]);
        break;
      case 5:
        map(protection, MAP_PRIVATE, files_[1]);
        break;
      default:
        mprotect(at, pages * kPage, protection);
        break;
    }
    const auto start = reinterpret_cast<uint64_t>(at);
    return {start, start + pages * kPage};
  }

  uint64_t start() const { return reinterpret_cast<uint64_t>(area_); }
  uint64_t end() const { return start() + kPages * kPage; }
  bool Has(const MapRegion& region) const { return region.end >= start() && region.start <= end(); }

 private:
  std::mt19937 random_{7};
  uint8_t* area_ = nullptr;
  int files_[2];
};

struct Known {
  MapRegion region;
  bool uncached = false, follows = false;
  bool operator==(const Known&) const = default;
};

std::vector<Known> KnownOf(const AddressSpace& space, const LiveArea& area) {
  std::vector<Known> known;
  const MemoryMap map = space.map();
  for (const MapRegion& region : map.regions()) {
    if (area.Has(region)) known.push_back({region, space.uncached(region), space.follows(region)});
  }
  return known;
}

// After each change of this process's mappings the space that was given the changed part equals one
// made from the whole map, and reports where it has changed.
TEST(AddressSpaceTest, PartsGiveWhatTheWholeMapGives) {
  const auto all = [] { return MemoryMap::OfProcess("/proc/self/maps"); };
  const auto nobody = [](const MapRegion&) { return false; };
  LiveArea area;
  AddressSpace space(all(), nobody);
  for (int i = 0; i < 3000; ++i) {
    const std::vector<Known> before = KnownOf(space, area);
    const uint64_t version = space.version();
    const AddressSpace::Range changed = area.Change();
    const AddressSpace::Range around = space.Around(changed.start, changed.end);
    auto regions = ReadRegions("/proc/self/maps", around.start, around.end);
    if (!regions.has_value()) GTEST_SKIP() << "this kernel cannot be asked for single regions";
    MapPart part = {around.start, around.end, *std::move(regions)};
    if (space.Trim(&part)) space.Replace(part);
    const AddressSpace truth(all(), nobody);
    const std::vector<Known> after = KnownOf(space, area);
    ASSERT_EQ(after, KnownOf(truth, area)) << i;
    ASSERT_EQ(space.version() == version, before == after) << i;
    for (const Known& known : after) {
      if (std::find(before.begin(), before.end(), known) != before.end()) continue;
      bool said = false;
      for (const AddressSpace::Range& range : space.ChangedSince(version)) {
        said |= range.start <= known.region.start && known.region.end <= range.end;
      }
      ASSERT_TRUE(said) << i;
    }
  }
}

TEST(AddressSpaceTest, TrimmingLeavesWhatDiffers) {
  const auto region = [](uint64_t first, uint64_t end, uint32_t protection) {
    return MapRegion{.start = first << 12, .end = end << 12, .protection = protection};
  };
  const std::vector<MapRegion> old = {region(1, 2, 1), region(2, 4, 3), region(6, 8, 1)};
  const AddressSpace space(MemoryMap(old), [](const MapRegion&) { return false; });
  MapPart part = {0, ~uint64_t{0}, old};
  EXPECT_FALSE(space.Trim(&part));
  part = {0, ~uint64_t{0}, {old[0], region(2, 3, 3), region(5, 6, 7), old[2]}};
  ASSERT_TRUE(space.Trim(&part));
  EXPECT_EQ(part.start, 2 << 12);
  EXPECT_EQ(part.end, 6 << 12);
  EXPECT_EQ(part.regions, std::vector<MapRegion>({region(2, 3, 3), region(5, 6, 7)}));
  part = {0, ~uint64_t{0}, {old[0], old[1]}};
  ASSERT_TRUE(space.Trim(&part));
  EXPECT_EQ(part.start, 6 << 12);
  EXPECT_EQ(part.end, 8 << 12);
  EXPECT_TRUE(part.regions.empty());
}

}  // namespace
}  // namespace hindsight
