#include "recorder/snapshot/written_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "recorder/snapshot/block_pool.h"
#include "recorder/snapshot/written_planner.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kMegabyte = 1 << 20;
constexpr uint64_t kBytes = 8 * kMegabyte;
// There are other pages that only this process has: the pool's.
constexpr uint64_t kAll = 512 * kMegabyte;

// Memory of this process, which a child has as it was.
class WrittenMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    void* const base =
        mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(base, MAP_FAILED);
    // Which megabytes are left out goes by their addresses.
    memory_ = static_cast<uint8_t*>(base);
    memory_ += -reinterpret_cast<uint64_t>(memory_) % kMegabyte;
    memset(memory_, 1, kBytes);
    child_ = fork();
    if (child_ == 0) {
      while (true) pause();
    }
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  uint64_t Address(uint64_t offset) const { return reinterpret_cast<uint64_t>(memory_) + offset; }
  // The turn at which no megabyte of it is left out.
  uint64_t Turn() const { return (Address(0) / kMegabyte + 12) % 16; }
  WrittenMemory Plan(uint64_t turn, uint64_t most = kAll) {
    return WrittenMemory::Plan(getpid(), turn, most, &pool_);
  }
  // Bytes of it that were read.
  uint64_t Read(WrittenMemory* written) const {
    written->Read(getpid());
    uint64_t bytes = 0;
    for (uint64_t at = 0; at < kBytes; at += kPageBytes) {
      const uint8_t* const page = written->Find(Address(at));
      if (page == nullptr) continue;
      EXPECT_EQ(memcmp(page, memory_ + at, kPageBytes), 0) << at;
      bytes += kPageBytes;
    }
    return bytes;
  }

  BlockPool pool_{4 * kBytes};
  uint8_t* memory_ = nullptr;
  pid_t child_ = 0;
};

TEST_F(WrittenMemoryTest, NothingIfNothingWasWritten) {
  WrittenMemory written = Plan(Turn());
  EXPECT_EQ(Read(&written), 0u);
}

TEST_F(WrittenMemoryTest, WhatWasWrittenAndLittleElse) {
  memset(memory_ + kMegabyte, 2, kMegabyte);
  // Two pages in three: those between them come with them.
  for (uint64_t i = 0; i < 256; ++i) {
    if (i % 3 != 0) memory_[4 * kMegabyte + i * kPageBytes] = 3;
  }
  memory_[7 * kMegabyte] = 4;  // alone
  WrittenMemory written = Plan(Turn());
  const uint64_t bytes = Read(&written);
  EXPECT_GE(bytes, 2 * kMegabyte - 2 * kPageBytes);
  EXPECT_LE(bytes, 2 * kMegabyte);
  EXPECT_NE(written.Find(Address(kMegabyte)), nullptr);
  EXPECT_EQ(written.Find(Address(7 * kMegabyte)), nullptr);
}

TEST_F(WrittenMemoryTest, NoMoreThanIsAllowed) {
  memset(memory_, 2, kBytes);
  WrittenMemory some = Plan(Turn(), 3 * kMegabyte);
  EXPECT_EQ(Read(&some), 3 * kMegabyte);
  WrittenMemory none = Plan(Turn(), 0);
  EXPECT_EQ(Read(&none), 0u);
}

TEST_F(WrittenMemoryTest, EachMegabyteIsLeftOutAtOneOfSixteenTurns) {
  memset(memory_, 2, kBytes);
  for (uint64_t turn = 0; turn < 16; ++turn) {
    WrittenMemory written = Plan(turn);
    Read(&written);
    for (uint64_t at = 0; at < kBytes; at += kMegabyte) {
      const bool left_out = Address(at) / kMegabyte % 16 == turn;
      EXPECT_EQ(written.Find(Address(at) + kMegabyte / 2) == nullptr, left_out) << turn;
    }
  }
}

// Reading it might wait for the process itself.
TEST_F(WrittenMemoryTest, NotWhatIsGoneSinceThePlan) {
  memset(memory_, 2, kBytes);
  WrittenMemory written = Plan(Turn());
  madvise(memory_ + 2 * kMegabyte, kPageBytes, MADV_DONTNEED);
  EXPECT_EQ(Read(&written), 0u);  // all of it is one range
}

TEST_F(WrittenMemoryTest, NotSharedMemoryNorWhatCannotBeRead) {
  memset(memory_, 2, kBytes);
  mprotect(memory_ + kMegabyte, kMegabyte, PROT_NONE);
  void* const shared =
      mmap(nullptr, kMegabyte, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  memset(shared, 1, kMegabyte);
  WrittenMemory written = Plan(Turn());
  written.Read(getpid());
  EXPECT_NE(written.Find(Address(0)), nullptr);
  EXPECT_EQ(written.Find(Address(kMegabyte)), nullptr);
  EXPECT_NE(written.Find(Address(2 * kMegabyte)), nullptr);
  EXPECT_EQ(written.Find(reinterpret_cast<uint64_t>(shared)), nullptr);
}

TEST(BlockPoolTest, BlocksComeBackAndAreTakenAgain) {
  BlockPool pool(2 * BlockPool::kBlockBytes);
  BlockPool::Block one = pool.Take(), other = pool.Take(), third = pool.Take();
  ASSERT_TRUE(one != nullptr && other != nullptr && third != nullptr);
  const uint8_t* const place = other.get();
  one.reset();
  other.reset();
  third.reset();  // not kept
  EXPECT_EQ(pool.Take().get(), place);
}

class WrittenPlannerTest : public WrittenMemoryTest {};

TEST_F(WrittenPlannerTest, PlansInTimeForTheNext) {
  WrittenPlanner planner(getpid(), kAll, &pool_);
  memset(memory_, 2, kBytes);
  uint64_t most = 0;
  for (int i = 0; i < 20; ++i) {
    planner.Begin();
    usleep(100'000);
    WrittenMemory written = planner.Take();
    most = std::max(most, Read(&written));
  }
  EXPECT_GT(most, kBytes / 2);
}

TEST_F(WrittenPlannerTest, WithoutTimeThereIsNothing) {
  WrittenPlanner planner(getpid(), kAll, &pool_);
  memset(memory_, 2, kBytes);
  planner.Begin();
  usleep(400'000);
  planner.Begin();  // due in 200 ms
  planner.Take();
  WrittenMemory written = planner.Take();
  EXPECT_EQ(Read(&written), 0u);
}

}  // namespace
}  // namespace hindsight
