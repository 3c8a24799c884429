#include "recorder/address_space.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <utility>
#include <vector>

#include "recorder/memory_map.h"

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

  // For each region whether it is uncached, if nobody else maps anything.
  std::vector<bool> Uncached() const { return All(&AddressSpace::uncached); }
  std::vector<bool> Follows() const { return All(&AddressSpace::follows); }

 private:
  std::vector<bool> All(bool (AddressSpace::*is)(const MapRegion&) const) const {
    const AddressSpace space(MemoryMap(regions_), [](const MapRegion&) { return false; });
    std::vector<bool> all;
    for (const MapRegion& region : space.map().regions()) all.push_back((space.*is)(region));
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
  EXPECT_TRUE(space.uncached(space.map().regions()[0]));
  EXPECT_TRUE(space.has_shared());
}

}  // namespace
}  // namespace hindsight
