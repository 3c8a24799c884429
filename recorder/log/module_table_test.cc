#include "recorder/log/module_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

#include "gtest/gtest.h"
#include "recorder/log/fake_trace_writer.h"

namespace hindsight {
namespace {

class ModuleTableTest : public testing::Test {
 protected:
  // A file of this test's, mapped at `address` as far as the map says.
  MapRegion RegionOf(const std::string& name, const std::string& bytes, uint64_t address) {
    const std::string path = testing::TempDir() + "/" + name;
    std::ofstream(path) << bytes;
    struct stat st;
    EXPECT_EQ(stat(path.c_str(), &st), 0);
    MapRegion region;
    region.start = address;
    region.end = address + 2 * kPageBytes;
    region.protection = PROT_READ;
    region.inode = st.st_ino;
    region.name = path;
    return region;
  }

  FakeTraceWriter writer_;
  ModuleTable table_{&writer_, "", 1 << 20};
};

TEST_F(ModuleTableTest, StoresEachFileOnce) {
  const MapRegion region = RegionOf("once", "x", 0x1000);
  MemoryMap map({region, RegionOf("other", "y", 0x10000)});
  ASSERT_TRUE(table_.Register(absl::MakeSpan(map.mutable_regions())).ok());
  ASSERT_TRUE(table_.Register(absl::MakeSpan(map.mutable_regions())).ok());
  EXPECT_EQ(writer_.modules.size(), 2u);
  EXPECT_EQ(map.regions()[0].module, 0);
  EXPECT_EQ(map.regions()[1].module, 1);
}

TEST_F(ModuleTableTest, LeavesOutWhatIsNoFileOnDisk) {
  MapRegion deleted = RegionOf("gone", "x", 0x1000);
  deleted.name += " (deleted)";
  MapRegion device = RegionOf("device", "x", 0x10000);
  device.name = "/dev/zero";
  MapRegion replaced = RegionOf("replaced", "x", 0x20000);
  ++replaced.inode;
  MapRegion big = RegionOf("big", std::string(2 << 20, 'b'), 0x30000);
  MemoryMap map({deleted, device, replaced, big, MapRegion{.name = "[heap]"}});
  ASSERT_TRUE(table_.Register(absl::MakeSpan(map.mutable_regions())).ok());
  for (const MapRegion& region : map.regions()) EXPECT_EQ(region.module, -1) << region.name;
}

TEST_F(ModuleTableTest, ComparesPagesUntilTheFileChanges) {
  std::string bytes(kPageBytes + 100, 'a');
  MapRegion region = RegionOf("compare", bytes, 0x1000);
  MemoryMap map({region});
  ASSERT_TRUE(table_.Register(absl::MakeSpan(map.mutable_regions())).ok());
  const MapRegion& mapped = map.regions()[0];
  std::vector<uint8_t> page(kPageBytes, 'a');
  uint64_t offset = 0;
  EXPECT_TRUE(table_.Equals(mapped, 0x1000, page.data(), &offset));
  EXPECT_EQ(offset, 0u);
  EXPECT_FALSE(table_.Equals(mapped, 0x2000, page.data(), &offset));
  std::fill(page.begin() + 100, page.end(), 0);
  EXPECT_TRUE(table_.Equals(mapped, 0x2000, page.data(), &offset));
  EXPECT_EQ(offset, kPageBytes);

  std::ofstream(region.name, std::ios::app) << "b";
  EXPECT_FALSE(table_.Equals(mapped, 0x2000, page.data(), &offset));
}

TEST_F(ModuleTableTest, SaysOnceWhichFilesHaveChanged) {
  const MapRegion changed = RegionOf("changed", "x", 0x1000);
  MemoryMap map({changed, RegionOf("unchanged", "y", 0x10000)});
  ASSERT_TRUE(table_.Register(absl::MakeSpan(map.mutable_regions())).ok());
  EXPECT_TRUE(table_.TakeChanged().empty());
  std::ofstream(changed.name, std::ios::app) << "b";
  EXPECT_EQ(table_.TakeChanged(), (std::vector<int32_t>{0}));
  EXPECT_TRUE(table_.TakeChanged().empty());
}

TEST_F(ModuleTableTest, KnowsElfFiles) {
  MemoryMap map({RegionOf("elf",
                          "\x7f"
                          "ELF",
                          0x1000),
                 RegionOf("text", "text", 0x10000)});
  ASSERT_TRUE(table_.Register(absl::MakeSpan(map.mutable_regions())).ok());
  EXPECT_TRUE(table_.IsElf(map.regions()[0]));
  EXPECT_FALSE(table_.IsElf(map.regions()[1]));
  EXPECT_FALSE(table_.IsElf(MapRegion{}));
}

}  // namespace
}  // namespace hindsight
