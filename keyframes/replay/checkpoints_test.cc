#include "keyframes/replay/checkpoints.h"

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

class NoPager final : public Pager {
 public:
  bool OnMissing(uint64_t page, Access access) override { return false; }
  bool OnFirstWrite(uint64_t page) override { return true; }
};

// A Cpu that never runs: the test plays the program.
class CheckpointsTest : public testing::Test {
 protected:
  CheckpointsTest() : cpu_(*Cpu::Create(&pager_)), checkpoints_(cpu_.get()) {}

  void Add(uint64_t page) {
    std::memset(cpu_->HostPage(page), 0, kPageBytes);
    checkpoints_.AddPage(page);
  }
  void Write(uint64_t page, uint8_t value) {
    checkpoints_.BeforeChange(page);
    cpu_->HostPage(page)[7] = value;
    cpu_->ContentsChanged(page);
  }
  int Read(uint64_t page) {
    uint8_t byte = 0;
    return cpu_->ReadHeld(page + 7, absl::MakeSpan(&byte, 1)) ? byte : -1;
  }
  void At(uint64_t count) {
    cpu_->set_count(count);
    checkpoints_.Take(count * 10);
  }

  NoPager pager_;
  std::unique_ptr<Cpu> cpu_;
  Checkpoints checkpoints_;
};

constexpr uint64_t kA = 0x10000, kB = 0x20000, kC = 0x30000;

TEST_F(CheckpointsTest, GoingBackRestoresPagesRegistersAndCursor) {
  Add(kA);
  Write(kA, 1);
  RegisterFile registers;
  registers.gpr[kRbx] = 5;
  registers.rip = 0x1234;
  cpu_->SetRegisters(registers);
  At(100);
  Write(kA, 2);
  registers.gpr[kRbx] = 6;
  cpu_->SetRegisters(registers);
  cpu_->set_count(150);
  EXPECT_EQ(checkpoints_.Restore(120), 1000);
  EXPECT_EQ(cpu_->count(), 100);
  EXPECT_EQ(cpu_->registers().gpr[kRbx], 5);
  EXPECT_EQ(cpu_->pc(), 0x1234);
  EXPECT_EQ(Read(kA), 1);
}

// Forward, the program overwrites its code; back, the older code must run, not its translation.
TEST_F(CheckpointsTest, RolledBackCodeIsExecutedAsItIsAgain) {
  Add(kA);
  RegisterFile registers;
  registers.rip = kA;
  registers.rflags = 0x202;
  registers.mxcsr = 0x1f80;
  registers.fcw = 0x37f;
  auto put = [&](uint8_t value) {
    const uint8_t code[] = {0xb8, 0, 0, 0, 0, 0x90, 0x90, value, 0x0f, 0x05};
    std::memcpy(cpu_->HostPage(kA), code, sizeof(code));
    cpu_->HostPage(kA)[1] = value;
  };
  auto run = [&] {  // mov eax,value; two nops and a third byte; syscall
    EXPECT_EQ(cpu_->Run({}).stop, Stop::kSpecial);
    return cpu_->registers().gpr[kRax];
  };
  put(0x90);
  cpu_->SetRegisters(registers);
  At(1);
  EXPECT_EQ(run(), 0x90u);
  for (int i = 0; i < 3; ++i) {
    checkpoints_.Restore(1);
    EXPECT_EQ(run(), 0x90u);
    checkpoints_.BeforeChange(kA);
    put(0xf8);  // clc
    cpu_->ContentsChanged(kA);
    cpu_->SetRegisters(registers);
    EXPECT_EQ(run(), 0xf8u);
  }
  checkpoints_.Restore(1);
  EXPECT_EQ(run(), 0x90u);
}

TEST_F(CheckpointsTest, PagesThatCameLaterAreGone) {
  Add(kA);
  At(1);
  Add(kB);
  Write(kB, 9);
  At(2);
  Write(kB, 10);
  checkpoints_.Restore(1);
  EXPECT_EQ(Read(kB), -1);
  EXPECT_EQ(Read(kA), 0);
  EXPECT_EQ(checkpoints_.held_pages(), std::vector<uint64_t>{kA});
}

TEST_F(CheckpointsTest, AFirstWriteIsNoticedAgainAfterGoingBack) {
  Add(kA);
  At(1);
  Write(kA, 1);
  checkpoints_.Restore(1);
  EXPECT_EQ(cpu_->rights(kA), PageRights::kRead);
  Write(kA, 2);
  checkpoints_.Restore(1);
  EXPECT_EQ(Read(kA), 0);
}

TEST_F(CheckpointsTest, KnowsWhichPagesHaveNotChanged) {
  Add(kA);
  Add(kB);
  At(10);
  Write(kA, 1);
  At(20);
  Add(kC);
  At(30);
  Write(kB, 1);
  EXPECT_TRUE(checkpoints_.MayHaveChanged(kA, 10, 20));
  EXPECT_TRUE(checkpoints_.MayHaveChanged(kA, 15, 40));
  EXPECT_FALSE(checkpoints_.MayHaveChanged(kA, 20, 40));
  EXPECT_FALSE(checkpoints_.MayHaveChanged(kB, 10, 30));
  EXPECT_TRUE(checkpoints_.MayHaveChanged(kB, 10, 31));
  EXPECT_TRUE(checkpoints_.MayHaveChanged(kC, 20, 30)) << "it came then";
  EXPECT_FALSE(checkpoints_.MayHaveChanged(kC, 30, 40));
  EXPECT_TRUE(checkpoints_.MayHaveChanged(kA, 9, 40)) << "there is no checkpoint before";
  EXPECT_TRUE(checkpoints_.MayHaveChanged(0x40000, 20, 30)) << "it is not held";
}

TEST_F(CheckpointsTest, ThereIsNoneBeforeTheFirst) {
  At(10);
  EXPECT_FALSE(checkpoints_.NewestAtOrBefore(9).has_value());
  EXPECT_EQ(checkpoints_.NewestAtOrBefore(10), 10);
  EXPECT_EQ(checkpoints_.NewestAtOrBefore(1000), 10);
}

TEST_F(CheckpointsTest, ThinningKeepsTheNewestAndStaysWithinItsBytes) {
  Add(kA);
  for (uint64_t count = 1; count <= 2000; ++count) {
    At(count);
    Write(kA, static_cast<uint8_t>(count));
    checkpoints_.Thin(64 * kPageBytes);
    ASSERT_LE(checkpoints_.bytes(), 64 * kPageBytes);
    ASSERT_EQ(checkpoints_.NewestAtOrBefore(count), count);
  }
  EXPECT_GT(checkpoints_.size(), 4);
}

// The contents at every checkpoint that is left are what they were when it was taken.
TEST_F(CheckpointsTest, WhateverIsDroppedTheRestIsRight) {
  std::mt19937 random(TestSeed());
  const uint64_t pages[] = {kA, kB, kC};
  std::map<uint64_t, std::array<int, 3>> truth;
  std::array<int, 3> now = {-1, -1, -1};
  uint64_t count = 1;
  for (int i = 0; i < 3000; ++i) {
    const size_t page = random() % 3;
    switch (random() % 8) {
      case 0:
        At(count);
        truth[count] = now;
        break;
      case 1:
        checkpoints_.Thin((4 + random() % 40) * kPageBytes);
        break;
      case 2: {
        const auto found =
            checkpoints_.NewestAtOrBefore(count - random() % std::min<uint64_t>(count, 60));
        if (!found.has_value()) break;
        checkpoints_.Restore(*found);
        count = *found;
        now = truth[count];
        break;
      }
      default:
        if (now[page] < 0) {
          Add(pages[page]);
          now[page] = 0;
        } else {
          now[page] = static_cast<int>(random() % 256);
          Write(pages[page], static_cast<uint8_t>(now[page]));
        }
        cpu_->set_count(++count);
    }
    for (size_t k = 0; k < 3; ++k) ASSERT_EQ(Read(pages[k]), now[k]) << "move " << i;
  }
}

}  // namespace
}  // namespace hindsight
