#include "recorder/memory_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <vector>

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

TEST(MemoryMapTest, KnowsThisProcess) {
  const MemoryMap map = MemoryMap::OfProcess("/proc/self/maps");
  int on_stack;
  const MapRegion* stack = map.Find(reinterpret_cast<uint64_t>(&on_stack));
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(stack->name, "[stack]");
  EXPECT_NE(map.FindNamed("[vdso]"), nullptr);
  EXPECT_TRUE(MemoryMap::OfProcess("/proc/self/no-such-file").regions().empty());
}

// After each change of this process's mappings, what was brought up to date is what the kernel
// lists.
TEST(MemoryMapTest, RefreshingWhatHasChangedGivesTheWholeMap) {
  constexpr uint64_t kPages = 64, kPage = 4096;
  const auto all = [] { return MemoryMap::OfProcess("/proc/self/maps"); };
  auto* const area = static_cast<uint8_t*>(
      mmap(nullptr, kPages * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(area, MAP_FAILED);
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  std::mt19937 random(7);
  MemoryMap map = all();
  if (!map.Refresh("/proc/self/maps", reinterpret_cast<uint64_t>(area), 1)) {
    GTEST_SKIP() << "this kernel does not tell of single regions";
  }
  for (int i = 0; i < 2000; ++i) {
    const uint64_t first = random() % kPages, pages = 1 + random() % (kPages - first);
    uint8_t* const at = area + first * kPage;
    const int protection = static_cast<int>(random() % 4);  // of PROT_READ and PROT_WRITE
    switch (random() % 5) {
      case 0:
        munmap(at, pages * kPage);
        break;
      case 1:
        mmap(at, pages * kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
      case 2:
        mmap(at, pages * kPage, PROT_READ, MAP_PRIVATE | MAP_FIXED, file,
             static_cast<off_t>(first * kPage));
        break;
      case 3:
        mmap(at, pages * kPage, protection, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
      default:
        mprotect(at, pages * kPage, protection);
        break;
    }
    const auto start = reinterpret_cast<uint64_t>(at);
    // What else the process has mapped meanwhile, malloc's for example, is not our question.
    if (!map.Refresh("/proc/self/maps", start, start + pages * kPage)) map = all();
    const MemoryMap truth = all();
    const auto in_area = [&](const MemoryMap& whole) {
      std::vector<MapRegion> regions;
      for (const MapRegion& region : whole.regions()) {
        if (region.end >= reinterpret_cast<uint64_t>(area) &&
            region.start <= reinterpret_cast<uint64_t>(area + kPages * kPage)) {
          regions.push_back(region);
        }
      }
      return regions;
    };
    ASSERT_EQ(in_area(map), in_area(truth)) << i;
  }
  close(file);
  munmap(area, kPages * kPage);
}

}  // namespace
}  // namespace hindsight
