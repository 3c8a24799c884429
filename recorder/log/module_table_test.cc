#include "recorder/log/module_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/file_times.h"
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

  static int OpenFiles() {
    int files = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      ++files;
    }
    return files;
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

TEST_F(ModuleTableTest, StoresWhatWasOpenedThoughItsNameIsGone) {
  MemoryMap map({RegionOf("unlinked", "x", 0x1000), RegionOf("unopened", "y", 0x10000)});
  table_.Open(absl::MakeConstSpan(map.regions()).first(1));
  for (const MapRegion& region : map.regions()) std::filesystem::remove(region.name);
  ASSERT_TRUE(table_.Register(absl::MakeSpan(map.mutable_regions())).ok());
  EXPECT_EQ(writer_.modules.size(), 1u);
  EXPECT_EQ(map.regions()[0].module, 0);
  EXPECT_EQ(map.regions()[1].module, -1);
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

TEST_F(ModuleTableTest, ComparesPagesWithWhatIsStoredWhateverTheFileHasByNow) {
  std::string bytes(kPageBytes + 100, 'a');
  MapRegion region = RegionOf("compare", bytes, 0x1000);
  MemoryMap map({region});
  ASSERT_TRUE(table_.Register(absl::MakeSpan(map.mutable_regions())).ok());
  const MapRegion& mapped = map.regions()[0];
  struct stat status;
  ASSERT_EQ(stat(region.name.c_str(), &status), 0);
  const timespec mtime = status.st_mtim;
  std::vector<uint8_t> page(kPageBytes, 'a');
  uint64_t offset = 0;
  EXPECT_TRUE(table_.Equals(mapped, 0x1000, page.data(), &offset));
  EXPECT_EQ(offset, 0u);
  EXPECT_FALSE(table_.Equals(mapped, 0x2000, page.data(), &offset));
  std::fill(page.begin() + 100, page.end(), 0);
  EXPECT_TRUE(table_.Equals(mapped, 0x2000, page.data(), &offset));
  EXPECT_EQ(offset, kPageBytes);

  // Stored to by way of a mapping: its times may stay what they were.
  const int file = open(region.name.c_str(), O_RDWR);
  auto* const memory =
      static_cast<uint8_t*>(mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(memory, MAP_FAILED);
  memory[7] = 'b';
  const timespec times[2] = {mtime, mtime};
  ASSERT_EQ(futimens(file, times), 0);
  EXPECT_TRUE(table_.Unchanged(mapped));
  EXPECT_FALSE(table_.Equals(mapped, 0x1000, memory, &offset));
  std::fill(page.begin(), page.end(), 'a');
  EXPECT_TRUE(table_.Equals(mapped, 0x1000, page.data(), &offset));
  munmap(memory, kPageBytes);
  close(file);

  std::ofstream(region.name, std::ios::app) << "b";
  EXPECT_TRUE(table_.Equals(mapped, 0x1000, page.data(), &offset));
}

// Who stores to one by way of a mapping may do so any time.
TEST_F(ModuleTableTest, TrustsTheTimesOfFilesThatWereAtRestAndOfPrograms) {
  const auto region_of = [&](const char* name, const std::string& bytes, time_t age) {
    const MapRegion region = RegionOf(name, bytes, 0x1000);
    const timespec times[2] = {{time(nullptr) - age, 0}, {time(nullptr) - age, 0}};
    EXPECT_EQ(utimensat(AT_FDCWD, region.name.c_str(), times, 0), 0);
    std::vector<MapRegion> regions = {region};
    EXPECT_TRUE(table_.Register(absl::MakeSpan(regions)).ok());
    return regions[0];
  };
  EXPECT_FALSE(table_.MayChange(region_of("program", "\177ELF", 0)));
  EXPECT_TRUE(table_.MayChange(region_of("fresh", "x", 0)));
  EXPECT_TRUE(table_.MayChange(region_of("touched", "x", 3600))) << "its ctime is new";
  MapRegion system = {.start = 0x1000, .end = 0x2000, .name = "/etc/ld.so.cache"};
  struct stat status;
  ASSERT_EQ(stat(system.name.c_str(), &status), 0);
  system.inode = status.st_ino;
  std::vector<MapRegion> regions = {system};
  ASSERT_TRUE(table_.Register(absl::MakeSpan(regions)).ok());
  const int file = open(system.name.c_str(), O_RDONLY);
  EXPECT_NE(table_.MayChange(regions[0]),
            IsAtRest(status, kNoStoresSeconds) && TellTimesOfStores(file));
  close(file);
  EXPECT_FALSE(table_.MayChange(MapRegion{.name = "[heap]"}));
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

TEST_F(ModuleTableTest, WhatHappensToFilesWhileTheyAreNotMappedIsSaidWhenTheyAreAgain) {
  const MapRegion changed = RegionOf("changed", "x", 0x1000),
                  other = RegionOf("other", "y", 0x9000);
  std::vector<MapRegion> first = {changed}, second = {other};
  ASSERT_TRUE(table_.Register(absl::MakeSpan(first)).ok());
  ASSERT_TRUE(table_.Register(absl::MakeSpan(second), /*whole=*/true).ok());
  std::ofstream(changed.name, std::ios::app) << "b";
  EXPECT_TRUE(table_.TakeChanged().empty());
  ASSERT_TRUE(table_.Register(absl::MakeSpan(first)).ok());
  EXPECT_EQ(table_.TakeChanged(), (std::vector<int32_t>{0}));
}

TEST_F(ModuleTableTest, LetsGoOfFilesThatAreNotMappedAnyMore) {
  writer_.ring = true;
  MemoryMap map({RegionOf("stays", "x", 0x1000), RegionOf("goes", "y", 0x10000),
                 RegionOf("removed", "z", 0x20000),
                 RegionOf("too big", std::string(2 << 20, 'b'), 0x30000)});
  ASSERT_TRUE(table_.Register(absl::MakeSpan(map.mutable_regions())).ok());
  ASSERT_TRUE(table_.ReleaseUnmapped(map.regions()).ok());
  EXPECT_TRUE(writer_.released.empty());

  const MapRegion goes = map.regions()[1];
  std::vector<MapRegion> rest = {map.regions()[0], map.regions()[2]};
  rest[1].name += " (deleted)";  // as it is called from now on, still mapped
  ASSERT_TRUE(table_.ReleaseUnmapped(rest).ok());
  EXPECT_EQ(writer_.released, (std::vector<int32_t>{1, 3}));
  EXPECT_TRUE(table_.Unchanged(rest[1]));
  EXPECT_FALSE(table_.Unchanged(goes));

  // Mapped again it is another module.
  rest.push_back(goes);
  ASSERT_TRUE(table_.Register(absl::MakeSpan(rest)).ok());
  EXPECT_EQ(rest[2].module, 4);
  EXPECT_TRUE(table_.Unchanged(rest[2]));
}

TEST_F(ModuleTableTest, LetsGoOfNothingWithoutARing) {
  MemoryMap map({RegionOf("kept", "x", 0x1000)});
  ASSERT_TRUE(table_.Register(absl::MakeSpan(map.mutable_regions())).ok());
  ASSERT_TRUE(table_.ReleaseUnmapped({}).ok());
  EXPECT_TRUE(writer_.released.empty());
  EXPECT_TRUE(table_.Unchanged(map.regions()[0]));
}

TEST_F(ModuleTableTest, FilesThatAreNotMappedAnyMoreAreClosed) {
  writer_.ring = true;
  const auto files = std::make_shared<OpenedModules>();
  ModuleTable table(&writer_, "", 1 << 20, files);
  const int before = OpenFiles();
  for (int i = 0; i < 50; ++i) {
    MapRegion region = RegionOf(absl::StrCat("closed", i), absl::StrCat(i), 0x1000);
    ASSERT_TRUE(table.Register(absl::MakeSpan(&region, 1)).ok());
    ASSERT_TRUE(table.ReleaseUnmapped({}).ok());
  }
  EXPECT_EQ(OpenFiles(), before);
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
