#include "recorder/process/memory_map.h"

#include <sys/mman.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(MemoryMapTest, ParsesAFileMapping) {
  auto region = ParseMapLine(
      "7f0daa88d000-7f0daa88f000 rw-s 00033000 fe:0a 332383                     /usr/a b.so");
  ASSERT_TRUE(region.has_value());
  EXPECT_EQ(region->start, 0x7f0daa88d000u);
  EXPECT_EQ(region->end, 0x7f0daa88f000u);
  EXPECT_EQ(region->protection, static_cast<uint32_t>(PROT_READ | PROT_WRITE));
  EXPECT_TRUE(region->shared);
  EXPECT_EQ(region->file_offset, 0x33000u);
  EXPECT_EQ(region->device_major, 0xfeu);
  EXPECT_EQ(region->device_minor, 0x0au);
  EXPECT_EQ(region->inode, 332383u);
  EXPECT_EQ(region->name, "/usr/a b.so");
}

TEST(MemoryMapTest, ParsesAnAnonymousMapping) {
  auto region = ParseMapLine("7f0000-7f1000 --xp 00000000 00:00 0 ");
  ASSERT_TRUE(region.has_value());
  EXPECT_EQ(region->protection, static_cast<uint32_t>(PROT_EXEC));
  EXPECT_EQ(region->name, "");
}

TEST(MemoryMapTest, RejectsOtherLines) {
  EXPECT_FALSE(ParseMapLine("").has_value());
  EXPECT_FALSE(ParseMapLine("7f0000").has_value());
  EXPECT_FALSE(ParseMapLine("7f0000-7f1000").has_value());
  EXPECT_FALSE(ParseMapLine("7g0000-7f1000 rw-p 00000000 00:00 0 ").has_value());
  EXPECT_FALSE(ParseMapLine("7f0000-7f1000 rw-p").has_value());
}

TEST(MemoryMapTest, FindsByAddressAndName) {
  MemoryMap map({MapRegion{.start = 0x1000, .end = 0x3000, .name = "a"},
                 MapRegion{.start = 0x3000, .end = 0x4000, .name = "b"},
                 MapRegion{.start = 0x8000, .end = 0x9000, .name = "c"}});
  EXPECT_EQ(map.Find(0xfff), nullptr);
  EXPECT_EQ(map.Find(0x1000)->name, "a");
  EXPECT_EQ(map.Find(0x2fff)->name, "a");
  EXPECT_EQ(map.Find(0x3000)->name, "b");
  EXPECT_EQ(map.Find(0x4000), nullptr);
  EXPECT_EQ(map.Find(0x9000), nullptr);
  EXPECT_EQ(map.FindNamed("c")->start, 0x8000u);
  EXPECT_EQ(map.FindNamed("d"), nullptr);
}

// While it is read, the process may join a region with one that was read before it.
TEST(MemoryMapTest, LaterLinesAreTakenWhereLinesContradictEachOther) {
  const MemoryMap joined = MemoryMap::Parse(
      "1000-3000 rw-p 00000000 00:00 0 \n"
      "3000-4000 r--p 00000000 00:00 0 \n"
      "3000-8000 rw-p 00000000 00:00 0 \n");
  EXPECT_EQ(joined,
            MemoryMap({{.start = 0x1000, .end = 0x3000, .protection = PROT_READ | PROT_WRITE},
                       {.start = 0x3000, .end = 0x8000, .protection = PROT_READ | PROT_WRITE}}));
  const MemoryMap moved = MemoryMap::Parse(
      "1000-3000 rw-p 00000000 00:00 0 \n"
      "3000-5000 rw-p 00000000 00:00 0 \n"
      "2000-8000 r--p 00000000 00:00 0 \n");
  EXPECT_EQ(moved,
            MemoryMap({{.start = 0x1000, .end = 0x2000, .protection = PROT_READ | PROT_WRITE},
                       {.start = 0x2000, .end = 0x8000, .protection = PROT_READ}}));
}

TEST(MemoryMapTest, KnowsThisProcess) {
  const MemoryMap map = MemoryMap::OfProcess("/proc/self/maps");
  int on_stack;
  const MapRegion* stack = map.Find(reinterpret_cast<uint64_t>(&on_stack));
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(stack->name, "[stack]");
  EXPECT_NE(map.FindNamed("[vdso]"), nullptr);
  EXPECT_TRUE(MemoryMap::OfProcess("/proc/self/no-such-file").regions().empty());
}

TEST(MemoryMapTest, TheRegionOfAnAddress) {
  constexpr uint64_t kPage = 4096;
  void* const area = mmap(nullptr, 4 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  const auto start = reinterpret_cast<uint64_t>(area);
  ASSERT_EQ(mprotect(area, kPage, PROT_NONE), 0);
  ASSERT_EQ(munmap(reinterpret_cast<void*>(start + 2 * kPage), kPage), 0);
  const MemoryMap map = MemoryMap::OfProcess("/proc/self/maps");
  for (const uint64_t address : {start, start + kPage - 1, start + kPage, start + 2 * kPage - 1}) {
    EXPECT_EQ(ReadRegionAt("/proc/self/maps", address), *map.Find(address));
  }
  EXPECT_EQ(ReadRegionAt("/proc/self/maps", start + 2 * kPage), std::nullopt);
  EXPECT_EQ(ReadRegionAt("/proc/self/maps", 0), std::nullopt);
  EXPECT_EQ(ReadRegionAt("/proc/self/no-such-file", start), std::nullopt);
  munmap(area, 4 * kPage);
}

TEST(MemoryMapTest, RegionsAreReadAlone) {
  constexpr uint64_t kPage = 4096;
  auto* const area = static_cast<uint8_t*>(
      mmap(nullptr, 8 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(area, MAP_FAILED);
  ASSERT_EQ(mprotect(area + 2 * kPage, 2 * kPage, PROT_READ), 0);
  ASSERT_EQ(munmap(area + 5 * kPage, kPage), 0);
  const auto start = reinterpret_cast<uint64_t>(area);
  const auto read = [start](uint64_t first, uint64_t end) {
    return ReadRegions("/proc/self/maps", start + first * kPage, start + end * kPage);
  };
  const auto regions = read(2, 6);
  if (!regions.has_value()) GTEST_SKIP() << "this kernel cannot be asked for single regions";
  const MemoryMap all = MemoryMap::OfProcess("/proc/self/maps");
  ASSERT_EQ(regions->size(), 2);
  EXPECT_EQ((*regions)[0], *all.Find(start + 2 * kPage));
  EXPECT_EQ((*regions)[1], *all.Find(start + 4 * kPage));
  EXPECT_TRUE(read(5, 6).has_value() && read(5, 6)->empty());
  EXPECT_FALSE(read(3, 6).has_value()) << "one reaches over the start";
  EXPECT_FALSE(read(2, 3).has_value()) << "one reaches over the end";
  EXPECT_FALSE(ReadRegions("/proc/self/no-such-file", start, start + kPage).has_value());
  munmap(area, 8 * kPage);
}

// As mappings that are joined with their neighbours, or cut out of them, show themselves.
TEST(MemoryMapTest, RegionsAreReadWithThoseThatTouchThem) {
  constexpr uint64_t kPage = 4096;
  void* const area = mmap(nullptr, 9 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(area, MAP_FAILED);
  const auto start = reinterpret_cast<uint64_t>(area);
  const auto at = [start](uint64_t page) { return reinterpret_cast<void*>(start + page * kPage); };
  ASSERT_EQ(munmap(at(0), kPage), 0);
  ASSERT_EQ(mprotect(at(3), 2 * kPage, PROT_READ), 0);
  ASSERT_EQ(munmap(at(7), 2 * kPage), 0);
  const auto read = [start](uint64_t first, uint64_t end) {
    return ReadRegionsAround("/proc/self/maps", start + first * kPage, start + end * kPage);
  };
  const auto part = read(3, 5);
  if (!part.has_value()) GTEST_SKIP() << "this kernel cannot be asked for single regions";
  const MemoryMap all = MemoryMap::OfProcess("/proc/self/maps");
  const std::vector<MapRegion> three = {*all.Find(start + kPage), *all.Find(start + 3 * kPage),
                                        *all.Find(start + 5 * kPage)};
  EXPECT_EQ(part->regions, three);
  EXPECT_EQ(part->start, three[0].start);
  EXPECT_GE(part->end, start + 9 * kPage) << "nothing is mapped there";
  EXPECT_EQ(read(4, 4)->regions, (std::vector<MapRegion>{three[1]}));
  EXPECT_EQ(read(4, 4)->end, three[2].start);
  EXPECT_EQ(read(2, 3)->regions, (std::vector<MapRegion>{three[0], three[1]}));
  EXPECT_EQ(read(7, 7)->regions, (std::vector<MapRegion>{three[2]})) << "it ends there";
  EXPECT_FALSE(ReadRegionsAround("/proc/self/no-such-file", start, start + kPage).has_value());
  munmap(at(1), 6 * kPage);
}

}  // namespace
}  // namespace hindsight
