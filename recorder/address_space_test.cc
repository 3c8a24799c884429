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
  std::vector<bool> Uncached() const {
    const AddressSpace space(MemoryMap(regions_), [](const MapRegion&) { return false; });
    std::vector<bool> uncached;
    for (const MapRegion& region : space.map().regions()) {
      uncached.push_back(space.uncached(region));
    }
    return uncached;
  }

 private:
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
  EXPECT_EQ(Map().Shared(7, 0, 4, kWrite).Private(7, 0, 4).Uncached(), Bools({false, false}));
}

TEST(AddressSpaceTest, OneThatMayWriteIsEnough) {
  EXPECT_EQ(Map().Shared(7, 0, 4, kRead).Shared(7, 1, 2, kWrite).Uncached(), Bools({true, true}));
  EXPECT_EQ(Map().Shared(7, 1, 2, kWrite).Shared(7, 0, 4, kRead).Uncached(), Bools({true, true}));
  EXPECT_EQ(Map().Shared(7, 0, 4, kRead).Shared(7, 1, 2, kRead).Uncached(), Bools({false, false}));
}

TEST(AddressSpaceTest, OfManyOnlyThoseThatOverlap) {
  EXPECT_EQ(Map()
                .Shared(7, 0, 10, kRead)   // overlaps the writable one at 8
                .Shared(7, 2, 1, kRead)    // only others that cannot write
                .Shared(7, 8, 1, kWrite)   //
                .Shared(7, 20, 1, kWrite)  // nothing
                .Shared(8, 8, 1, kWrite)   // another file
                .Uncached(),
            Bools({true, false, true, false, false}));
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
