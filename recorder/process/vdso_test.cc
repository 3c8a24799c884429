#include "recorder/process/vdso.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "gtest/gtest.h"
#include "recorder/process/fake_process_memory.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/ptrace/true_process.h"

namespace hindsight {
namespace {

std::vector<uint8_t> OwnVdso() {
  const MemoryMap map = MemoryMap::OfProcess("/proc/self/maps");
  const MapRegion* region = map.FindNamed("[vdso]");
  const auto* start = reinterpret_cast<const uint8_t*>(region->start);
  return std::vector<uint8_t>(start, start + (region->end - region->start));
}

TEST(VdsoTest, OneLoopFollowsAFunction) {
  const std::vector<VdsoPatch> patches = PlanVdsoPatches(0, OwnVdso());
  const std::optional<uint64_t> loop = FindVdsoLoop(patches);
  ASSERT_TRUE(loop.has_value());
  int loops = 0;
  for (const VdsoPatch& patch : patches) {
    EXPECT_EQ(patch.code.size(), patch.original.size());
    if (*loop < patch.address || *loop >= patch.address + patch.code.size()) continue;
    ++loops;
    EXPECT_EQ(patch.code[*loop - patch.address], 0xeb);
    EXPECT_EQ(patch.code[*loop - patch.address + 1], 0xfe);
  }
  EXPECT_EQ(loops, 1);
}

TEST(VdsoTest, PatchedFunctionsStillWork) {
  const std::vector<uint8_t> image = OwnVdso();
  const std::vector<VdsoPatch> patches = PlanVdsoPatches(0, image);
  ASSERT_GE(patches.size(), 4u);
  void* code =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(code, MAP_FAILED);
  // clock_gettime is the one with this number.
  for (const VdsoPatch& patch : patches) {
    if (patch.code[0] != 0xb8 || patch.code[1] != 228) continue;
    std::memcpy(code, patch.code.data(), patch.code.size());
    timespec time = {};
    EXPECT_EQ(reinterpret_cast<int (*)(int, timespec*)>(code)(CLOCK_REALTIME, &time), 0);
    EXPECT_GT(time.tv_sec, 1'000'000'000);
  }
  munmap(code, 4096);
}

TEST(VdsoTest, DamagedImagesGiveNoPatches) {
  const std::vector<uint8_t> image = OwnVdso();
  for (size_t size : {0, 1, 63, 64, 300, 0x450}) {
    PlanVdsoPatches(0, absl::MakeConstSpan(image.data(), size));  // must not read beyond
  }
  EXPECT_TRUE(PlanVdsoPatches(0, std::vector<uint8_t>(8192, 0xff)).empty());
}

// A vdso in a process of its own.
class StoppedProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tracee_ = LaunchTrue();
    ASSERT_NE(tracee_, nullptr);
    map_ = MemoryMap::OfProcess(tracee_->ProcPath("maps"));
    ASSERT_NE(map_.FindNamed("[vdso]"), nullptr);
  }
  std::vector<uint8_t> Image() {
    const MapRegion* region = map_.FindNamed("[vdso]");
    std::vector<uint8_t> image(region->end - region->start);
    EXPECT_TRUE(tracee_->memory().Read(region->start, absl::MakeSpan(image)));
    return image;
  }

  std::unique_ptr<Tracee> tracee_;
  MemoryMap map_;
};

TEST_F(StoppedProcessTest, IsPatchedAndRestored) {
  const std::vector<uint8_t> before = Image();
  ProcMemFile memory(tracee_->thread());
  auto patches = PatchVdso(map_, &memory);
  ASSERT_TRUE(patches.ok());
  ASSERT_GE(patches->size(), 4u);
  for (const VdsoPatch& patch : *patches) {
    std::vector<uint8_t> now(patch.code.size());
    ASSERT_TRUE(tracee_->memory().Read(patch.address, absl::MakeSpan(now)));
    EXPECT_EQ(now, patch.code);
  }
  EXPECT_NE(Image(), before);
  // As in a fork: patched already, and the original is known all the same.
  auto again = PatchVdso(map_, &memory);
  ASSERT_EQ(again->size(), patches->size());
  for (size_t i = 0; i < again->size(); ++i) {
    EXPECT_EQ(again->at(i).address, patches->at(i).address);
    EXPECT_EQ(again->at(i).original, patches->at(i).original);
  }
  EXPECT_TRUE(RestoreVdso(*patches, &memory).ok());
  EXPECT_EQ(Image(), before);
  EXPECT_TRUE(RestoreVdso(*patches, &memory).ok());  // nothing of ours is there
  EXPECT_EQ(Image(), before);
}

// What other programs' vdsos look like: a copy of this process's, at another address, in fake
// memory.
TEST(VdsoTest, IsPatchedThroughMemoryAlone) {
  const std::vector<uint8_t> image = OwnVdso();
  MapRegion region;
  region.start = 0x7000'0000;
  region.end = region.start + image.size();
  region.name = "[vdso]";
  FakeProcessMemory memory;
  memory.Map(region.start, image.size());
  ASSERT_TRUE(memory.Write(region.start, image));
  auto patches = PatchVdso(MemoryMap({region}), &memory);
  ASSERT_TRUE(patches.ok()) << patches.status();
  ASSERT_FALSE(patches->empty());
  EXPECT_EQ(memory[patches->front().address], patches->front().code[0]);
  memory.Unmap(patches->back().address);
  EXPECT_TRUE(RestoreVdso(*patches, &memory).ok());  // not mapped any more is no error
  EXPECT_TRUE(PatchVdso(MemoryMap(), &memory)->empty());
  EXPECT_FALSE(PatchVdso(MemoryMap({region}), &memory).ok());
}

uint64_t FindReturn(const VdsoPatch& patch) {
  const auto found = std::find(patch.code.begin() + 5, patch.code.end(), 0xc3);  // not in a number
  return static_cast<uint64_t>(found - patch.code.begin());
}

TEST(LeaveVdsoPatchTest, GoesBackOrReturns) {
  const std::vector<VdsoPatch> patches = PlanVdsoPatches(0x7000, OwnVdso());
  ASSERT_FALSE(patches.empty());
  for (const VdsoPatch& patch : patches) {
    const uint64_t end = patch.address + FindReturn(patch) + 1;  // a loop may follow
    uint64_t rip = patch.address, rsp = 0x100;
    EXPECT_FALSE(LeaveVdsoPatch(patches, 0x4000, &rip, &rsp));  // has not begun
    for (rip = patch.address + 1; rip < end - 1;) {
      const uint64_t next = rip + 1;
      EXPECT_TRUE(LeaveVdsoPatch(patches, 0x4000, &rip, &rsp));
      EXPECT_EQ(rip, patch.address);
      EXPECT_EQ(rsp, 0x100u);
      rip = next;
    }
    EXPECT_TRUE(LeaveVdsoPatch(patches, 0x4000, &rip, &rsp));
    EXPECT_EQ(rip, 0x4000u);
    EXPECT_EQ(rsp, 0x108u);
    rip = end;
    EXPECT_FALSE(LeaveVdsoPatch(patches, 0x4000, &rip, &rsp));
  }
}

}  // namespace
}  // namespace hindsight
