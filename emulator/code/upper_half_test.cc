#include "emulator/code/upper_half.h"

#include <gtest/gtest.h>

#include <vector>

#include "emulator/cpu/cpu_fixture.h"

namespace hindsight {
namespace {

using Bytes = std::vector<uint8_t>;
using Checks = std::vector<UpperHalfCheck>;

TEST(UpperHalfTest, AScanOfARegisterAsItWasNeedsOneCheck) {
  const BlockUpperHalves block = UpperHalvesOf(Bytes{0x90, 0x0f, 0xbc, 0xca});  // bsf ecx,edx
  EXPECT_EQ(block.checks, (Checks{{.upper = kRcx, .lower = kRdx}}));
  EXPECT_FALSE(block.unknown);
}

TEST(UpperHalfTest, AShortDestinationNeedsNone) {
  // mov ecx,-1; bsf ecx,edx
  EXPECT_TRUE(UpperHalvesOf(Bytes{0xb9, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xbc, 0xca}).checks.empty());
  // xor eax,eax; lock cmpxchg [rdi],edx
  EXPECT_TRUE(UpperHalvesOf(Bytes{0x31, 0xc0, 0xf0, 0x0f, 0xb1, 0x17}).checks.empty());
  // xor ecx,ecx; mov cl,5; bsr ecx,[rdi]
  EXPECT_TRUE(UpperHalvesOf(Bytes{0x31, 0xc9, 0xb1, 5, 0x0f, 0xbd, 0x0f}).checks.empty());
}

TEST(UpperHalfTest, ACompareAndExchangeKeepsRax) {
  // cmpxchg [rdi],edx; twice
  EXPECT_EQ(UpperHalvesOf(Bytes{0x0f, 0xb1, 0x17}).checks, (Checks{{.upper = kRax}}));
  EXPECT_EQ(UpperHalvesOf(Bytes{0x0f, 0xb1, 0x17, 0x0f, 0xb1, 0x17}).checks.size(), 1u);
  // Of 64 bits, or of 16: nothing differs.
  EXPECT_TRUE(UpperHalvesOf(Bytes{0x48, 0x0f, 0xb1, 0x17}).checks.empty());
  EXPECT_TRUE(UpperHalvesOf(Bytes{0x66, 0x0f, 0xb1, 0x17}).checks.empty());
}

TEST(UpperHalfTest, WhatIsComputedInTheBlockIsNotKnown) {
  // pop rcx; pop rdx; bsf ecx,edx
  EXPECT_TRUE(UpperHalvesOf(Bytes{0x59, 0x5a, 0x0f, 0xbc, 0xca}).unknown);
  // pop rcx; bsf ecx,edx: the operand tells
  EXPECT_EQ(UpperHalvesOf(Bytes{0x59, 0x0f, 0xbc, 0xca}).checks, (Checks{{.lower = kRdx}}));
  // mov ah,1; cmpxchg [rdi],edx
  EXPECT_TRUE(UpperHalvesOf(Bytes{0xb4, 1, 0x0f, 0xb1, 0x17}).unknown);
}

// bsf ecx,edx; nop; syscall, run and stepped.
class UpperHalfCpuTest : public CpuTest {
 protected:
  void RunAndStep(uint64_t instructions) {
    Restart();
    ASSERT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
    ASSERT_EQ(cpu_->count(), instructions);
    run_ = cpu_->registers();
    Restart();
    for (uint64_t i = 0; i < instructions; ++i) ASSERT_EQ(cpu_->Step().stop, Stop::kLimit);
    EXPECT_TRUE(cpu_->registers() == run_);
  }
  RegisterFile run_;
};

TEST_F(UpperHalfCpuTest, AScanOfZeroKeepsItsDestination) {
  Code({0x0f, 0xbc, 0xca, 0x90, 0x0f, 0x05});
  registers_.gpr[kRcx] = 0x123456789;
  for (uint64_t scanned : {uint64_t{0}, uint64_t{0x100000000}}) {
    registers_.gpr[kRdx] = scanned;
    RunAndStep(2);
    EXPECT_EQ(run_.gpr[kRcx], 0x123456789u);
  }
  registers_.gpr[kRdx] = 0x100;
  RunAndStep(2);
  EXPECT_EQ(run_.gpr[kRcx], 8u);
}

TEST_F(UpperHalfCpuTest, AlsoWhereOnlyTheBlockTells) {
  Code({0x59, 0x5a, 0x0f, 0xbd, 0xca, 0x90, 0x0f, 0x05});  // pop rcx; pop rdx; bsr ecx,edx
  const uint64_t words[] = {0x123456789, 0};
  std::memcpy(&pages_[kStack][0x800], words, sizeof(words));
  RunAndStep(4);
  EXPECT_EQ(run_.gpr[kRcx], 0x123456789u);
}

TEST_F(UpperHalfCpuTest, ASuccessfulExchangeKeepsRax) {
  Code({0xf0, 0x0f, 0xb1, 0x17, 0x90, 0x0f, 0x05});  // lock cmpxchg [rdi],edx
  registers_.gpr[kRax] = 0x500000000;
  registers_.gpr[kRdx] = 7;
  RunAndStep(2);
  EXPECT_EQ(run_.gpr[kRax], 0x500000000u);
  EXPECT_EQ(Data(0), 7u);
  registers_.gpr[kRax] = 0x500000001;
  RunAndStep(2);
  EXPECT_EQ(run_.gpr[kRax], 0u);  // the exchange fails
}

}  // namespace
}  // namespace hindsight
