// A Cpu that checks alignment refuses what the hardware refuses, where it does.

#include "emulator/cpu/cpu_fixture.h"

namespace hindsight {
namespace {

class CpuAlignmentTest : public CpuTest {
 protected:
  void SetUp() override {
    CpuTest::SetUp();
    cpu_->CheckAlignment();
  }
  // Runs into a fault, and back to where it is: its count.
  uint64_t CountOfFault() {
    const RunResult run = RunTo(~uint64_t{0});
    EXPECT_EQ(run.stop, Stop::kFault);
    Restart();
    EXPECT_EQ(RunTo(run.block_count).stop, Stop::kLimit);
    for (int i = 0; i < 100; ++i) {
      if (cpu_->Step().stop == Stop::kFault) return cpu_->count();
    }
    ADD_FAILURE() << "stepped, nothing faults";
    return 0;
  }
};

TEST_F(CpuAlignmentTest, AlignedOperandsAreExecuted) {
  Code({0x90, 0x0f, 0x28, 0x07, 0x0f, 0x05});  // nop; movaps xmm0,[rdi]; syscall
  Start();
  EXPECT_EQ(RunTo(100).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 2u);
}

TEST_F(CpuAlignmentTest, MisalignedOnesFault) {
  Code({0x90, 0x0f, 0x28, 0x07, 0x0f, 0x05});
  registers_.gpr[kRdi] = kData + 8;
  Start();
  EXPECT_EQ(CountOfFault(), 1u);
  EXPECT_EQ(cpu_->pc(), kCode + 1);
}

TEST_F(CpuAlignmentTest, InAReplayTheyDoNot) {
  auto cpu = Cpu::Create(this);
  ASSERT_TRUE(cpu.ok());
  cpu_ = *std::move(cpu);
  Code({0x90, 0x0f, 0x28, 0x07, 0x0f, 0x05});
  registers_.gpr[kRdi] = kData + 8;
  Start();
  EXPECT_EQ(RunTo(100).stop, Stop::kSpecial);
}

TEST_F(CpuAlignmentTest, AnAddressThatOnlyShowsInTheBlock) {
  // mov rax,[rdi]; movaps xmm0,[rax]; syscall
  Code({0x48, 0x8b, 0x07, 0x0f, 0x28, 0x00, 0x0f, 0x05});
  const uint64_t aligned = kData + 0x20, misaligned = kData + 0x24;
  std::memcpy(pages_[kData].data(), &aligned, 8);
  std::memcpy(pages_[kData].data() + 16, &misaligned, 8);
  Start();
  EXPECT_EQ(RunTo(100).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 2u);
  registers_.gpr[kRdi] = kData + 16;
  Restart();
  EXPECT_EQ(CountOfFault(), 1u);
}

TEST_F(CpuAlignmentTest, SuchABlockIsCheckedTheFirstTimesForEachProgram) {
  // L: mov rax,[rdi]; movaps xmm0,[rax]; dec rcx; jnz L; mov [rdi],rsi; jmp L
  Code({0x48, 0x8b, 0x07, 0x0f, 0x28, 0x00, 0x48, 0xff, 0xc9, 0x75, 0xf5, 0x48, 0x89, 0x37, 0xeb,
        0xf0});
  const uint64_t aligned = kData + 0x20;
  std::memcpy(pages_[kData].data(), &aligned, 8);
  registers_.gpr[kRsi] = kData + 0x24;  // stored after rcx rounds
  registers_.gpr[kRcx] = 10;
  Start();
  EXPECT_EQ(CountOfFault(), 10u * 4 + 3);
  // Later it is not noticed,
  registers_.gpr[kRcx] = 1000;
  Restart();
  EXPECT_EQ(cpu_->Run({.limit = 6000, .exact_limit = false}).stop, Stop::kLimit);
  // but for the next program it is.
  cpu_->Recycle(this);
  cpu_->CheckAlignment();
  registers_.gpr[kRcx] = 10;
  Start();
  for (auto& [page, bytes] : pages_) std::memcpy(cpu_->HostPage(page), bytes.data(), kPageBytes);
  EXPECT_EQ(CountOfFault(), 10u * 4 + 3);
}

// L: movaps xmm0,[rdi]; add rdi,STRIDE; dec rcx; jnz L; syscall
class CpuAlignmentLoopTest : public CpuAlignmentTest {
 protected:
  void Loop(int stride) {
    Code({0x0f, 0x28, 0x07, 0x48, 0x83, 0xc7, stride, 0x48, 0xff, 0xc9, 0x75, 0xf4, 0x0f, 0x05});
    registers_.gpr[kRcx] = 100;
    Start();
  }
};

TEST_F(CpuAlignmentLoopTest, InStridesRunsToItsEnd) {
  Loop(16);
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 400u);
}

TEST_F(CpuAlignmentLoopTest, OutOfStepFaultsInTheSecondRound) {
  Loop(8);
  EXPECT_EQ(CountOfFault(), 4u);
}

TEST_F(CpuAlignmentLoopTest, EnteredMisalignedFaultsAtOnce) {
  registers_.gpr[kRdi] = kData + 1;
  Loop(16);
  EXPECT_EQ(CountOfFault(), 0u);
  // The same block ran last, but with other registers.
  registers_.gpr[kRdi] = kData;
  Restart();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  registers_.gpr[kRdi] = kData + 1;
  Restart();
  EXPECT_EQ(CountOfFault(), 0u);
}

}  // namespace
}  // namespace hindsight
