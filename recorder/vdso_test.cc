#include "recorder/vdso.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

std::vector<uint8_t> OwnVdso() {
  const MemoryMap map = MemoryMap::OfProcess("/proc/self/maps");
  const MapRegion* region = map.FindNamed("[vdso]");
  const auto* start = reinterpret_cast<const uint8_t*>(region->start);
  return std::vector<uint8_t>(start, start + (region->end - region->start));
}

TEST(VdsoTest, PatchedFunctionsStillWork) {
  const std::vector<uint8_t> image = OwnVdso();
  const std::vector<VdsoPatch> patches = PlanVdsoPatches(image);
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
    PlanVdsoPatches(absl::MakeConstSpan(image.data(), size));  // must not read beyond
  }
  EXPECT_TRUE(PlanVdsoPatches(std::vector<uint8_t>(8192, 0xff)).empty());
}

TEST(VdsoTest, PatchesAProcess) {
  auto command = LookUpProgram({"/bin/true"});
  auto tracee = Tracee::Launch(*command);
  ASSERT_TRUE(tracee.ok());
  const MemoryMap map = MemoryMap::OfProcess((*tracee)->ProcPath("maps"));
  ASSERT_TRUE(PatchVdso(map, tracee->get()).ok());
  const MapRegion* region = map.FindNamed("[vdso]");
  std::vector<uint8_t> image(region->end - region->start);
  ASSERT_TRUE((*tracee)->Read(region->start, absl::MakeSpan(image)));
  for (const VdsoPatch& patch : PlanVdsoPatches(image)) {
    EXPECT_EQ(std::memcmp(&image[patch.offset], patch.code.data(), patch.code.size()), 0);
  }
  EXPECT_NE(image, OwnVdso());
}

}  // namespace
}  // namespace hindsight
