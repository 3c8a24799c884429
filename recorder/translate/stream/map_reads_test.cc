// The test's own process.

#include "recorder/translate/stream/map_reads.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kBytes = 4 * kPageBytes;

uint64_t Map() {
  return reinterpret_cast<uint64_t>(
      mmap(nullptr, kBytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

const MapRegion* RegionAt(const MapRead& read, uint64_t address) {
  for (const MapRegion& region : read.part.regions) {
    if (address >= region.start && address < region.end) return &region;
  }
  return nullptr;
}

TEST(MapReadsTest, IsWhatWasMappedWhenItWasRead) {
  MapReads reads;
  const uint64_t start = Map();
  const uint64_t id = reads.Read(getpid(), start, start + kBytes, nullptr).id;
  munmap(reinterpret_cast<void*>(start), kBytes);
  const auto read = reads.Take(id);
  ASSERT_TRUE(read.has_value());
  EXPECT_LE(read->part.start, start);
  EXPECT_GE(read->part.end, start + kBytes);
  const MapRegion* const region = RegionAt(*read, start);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->end, start + kBytes);
}

TEST(MapReadsTest, IsTakenOnce) {
  MapReads reads;
  const uint64_t first = reads.Read(getpid(), 0, 0, nullptr).id;
  const uint64_t second = reads.Read(getpid(), 0, 0, nullptr).id;
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, second);
  EXPECT_TRUE(reads.Take(second).has_value());
  EXPECT_FALSE(reads.Take(second).has_value());
  EXPECT_TRUE(reads.Take(first).has_value());
  EXPECT_FALSE(reads.Take(0).has_value());
}

TEST(MapReadsTest, WithoutAnEndItIsAllThatIsMapped) {
  MapReads reads;
  const auto read = reads.Take(reads.Read(getpid(), 0, 0, nullptr).id);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->part.start, 0u);
  EXPECT_EQ(read->part.end, ~uint64_t{0});
  EXPECT_NE(RegionAt(*read, reinterpret_cast<uint64_t>(&read)), nullptr) << "the stack";
}

TEST(MapReadsTest, WhatEndsBeforeItStartsIsAll) {
  MapReads reads;
  const auto read = reads.Take(reads.Read(getpid(), ~uint64_t{0}, 1, nullptr).id);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->part.start, 0u);
}

TEST(MapReadsTest, HasTheFilesOpen) {
  MapReads reads;
  OpenedModules modules;
  const auto read = reads.Take(reads.Read(getpid(), 0, 0, &modules).id);
  ASSERT_TRUE(read.has_value());
  ASSERT_FALSE(read->files.empty());
  EXPECT_TRUE(read->files[0]->Unchanged());
}

}  // namespace
}  // namespace hindsight
