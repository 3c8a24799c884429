#include "recorder/process/foreign_mappings.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "recorder/process/memory_map.h"

namespace hindsight {
namespace {

constexpr uint64_t kMs = 1'000'000;

MemoryMap OwnMap() { return MemoryMap::OfProcess("/proc/self/maps"); }

// This process plays the recorded one; children of it play strangers.
class ForeignMappingsTest : public testing::Test {
 protected:
  void SetUp() override {
    foreign_.set_recorded([this](pid_t) { return all_recorded_; });
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

  static void* Map(int fd, int flags) {
    void* const page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, flags, fd, 0);
    EXPECT_NE(page, MAP_FAILED);
    return page;
  }
  void MakeStranger() {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (;;) pause();
    }
    children_.push_back(child);
  }
  bool MayWrite(const void* page) {
    const MemoryMap map = OwnMap();
    const MapRegion* region = map.Find(reinterpret_cast<uint64_t>(page));
    EXPECT_NE(region, nullptr);
    return region != nullptr && foreign_.MayWrite(*region);
  }

  bool all_recorded_ = false;
  ForeignMappings foreign_;
  std::vector<pid_t> children_;
};

TEST_F(ForeignMappingsTest, NobodyElseHasItYet) {
  const void* const page = Map(-1, MAP_SHARED | MAP_ANONYMOUS);
  foreign_.Update(OwnMap().regions(), getpid(), 0);
  EXPECT_FALSE(MayWrite(page));
}

TEST_F(ForeignMappingsTest, AStrangerHasIt) {
  const void* const page = Map(-1, MAP_SHARED | MAP_ANONYMOUS);
  MakeStranger();
  const uint64_t before = foreign_.version();
  foreign_.Update(OwnMap().regions(), getpid(), 0);
  EXPECT_TRUE(MayWrite(page));
  EXPECT_NE(foreign_.version(), before);
}

TEST_F(ForeignMappingsTest, RecordedProcessesAreNoStrangers) {
  const void* const page = Map(-1, MAP_SHARED | MAP_ANONYMOUS);
  MakeStranger();
  all_recorded_ = true;
  foreign_.Update(OwnMap().regions(), getpid(), 0);
  EXPECT_FALSE(MayWrite(page));
}

TEST_F(ForeignMappingsTest, ALookIsGoodForHalfASecond) {
  const void* const page = Map(-1, MAP_SHARED | MAP_ANONYMOUS);
  foreign_.Update(OwnMap().regions(), getpid(), 0);
  MakeStranger();
  EXPECT_FALSE(foreign_.IsDue(499 * kMs));
  foreign_.Update(OwnMap().regions(), getpid(), 499 * kMs);
  EXPECT_FALSE(MayWrite(page));
  EXPECT_TRUE(foreign_.IsDue(500 * kMs));
  foreign_.Update(OwnMap().regions(), getpid(), 500 * kMs);
  EXPECT_TRUE(MayWrite(page));
}

TEST_F(ForeignMappingsTest, ForgottenLooksAreMadeAgain) {
  const void* const page = Map(-1, MAP_SHARED | MAP_ANONYMOUS);
  foreign_.Update(OwnMap().regions(), getpid(), 0);
  MakeStranger();
  foreign_.Forget();
  foreign_.Update(OwnMap().regions(), getpid(), 1 * kMs);
  EXPECT_TRUE(MayWrite(page));
}

TEST_F(ForeignMappingsTest, AFileThatIsNewIsLookedForAtOnce) {
  foreign_.Update(OwnMap().regions(), getpid(), 0);
  const int fd = memfd_create("shared", 0);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  const void* const page = Map(fd, MAP_SHARED);
  MakeStranger();
  foreign_.Update(OwnMap().regions(), getpid(), 1 * kMs);
  EXPECT_TRUE(MayWrite(page));
}

}  // namespace
}  // namespace hindsight
