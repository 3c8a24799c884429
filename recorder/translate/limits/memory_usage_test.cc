#include "recorder/translate/limits/memory_usage.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <string>

namespace hindsight {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

bool All(uint64_t start, uint64_t end) { return end <= uint64_t{1} << 47 && start != end; }

// What the kernel says of this process: "VmSize:", "VmData:".
uint64_t KernelBytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kib;
    if (word == name && status >> kib) return kib * 1024;
  }
  return 0;
}

TEST(MemoryUsageTest, CountsAsTheKernelDoes) {
  // Reading what the kernel says may itself take memory the first time.
  KernelBytes("VmSize:");
  const MemoryUsage usage = CountMemory(0, 0, &All);
  EXPECT_EQ(usage.total.all, KernelBytes("VmSize:"));
  // The stack is none of the kernel's data.
  EXPECT_EQ(usage.total.data, KernelBytes("VmData:") + KernelBytes("VmStk:"));
  EXPECT_EQ(usage.in_range.all, 0u);
}

TEST(MemoryUsageTest, KnowsWhatARangeHas) {
  const auto map = [](uint64_t bytes, int rights, int flags) {
    return mmap(nullptr, bytes, rights, flags | MAP_ANONYMOUS, -1, 0);
  };
  void* const whole = map(4 * kMiB, PROT_NONE, MAP_PRIVATE);
  ASSERT_NE(whole, MAP_FAILED);
  const auto start = reinterpret_cast<uint64_t>(whole);
  ASSERT_EQ(mprotect(whole, kMiB, PROT_READ | PROT_WRITE), 0);
  void* const shared = reinterpret_cast<void*>(start + 3 * kMiB);
  ASSERT_EQ(
      mmap(shared, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      shared);
  const MappedBytes in_range = CountMemory(start + kMiB / 2, start + 4 * kMiB, &All).in_range;
  EXPECT_EQ(in_range.all, 3 * kMiB + kMiB / 2);
  EXPECT_EQ(in_range.can_be_data, 2 * kMiB + kMiB / 2);
  EXPECT_EQ(in_range.data, kMiB / 2);
  munmap(whole, 4 * kMiB);
}

}  // namespace
}  // namespace hindsight
