// Instructions after prefixes that Unicorn and the hardware read differently.

#include <gtest/gtest.h>

#include "emulator/cpu/cpu_fixture.h"

namespace hindsight {
namespace {

constexpr uint64_t kUpper = 0x1111'2222'3333'0000;

TEST_F(CpuTest, AMisplacedRexNamesNoOtherRegister) {
  Code({0x41, 0x66, 0x89, 0xc8, 0xeb, 0x00, 0x0f, 0x05});  // mov ax,cx; not r8w. jmp M; M: syscall
  registers_.gpr[kRax] = kUpper;
  registers_.gpr[kRcx] = 0x5678;
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 2u);
  EXPECT_EQ(Reg(kRax), kUpper | 0x5678);
  EXPECT_EQ(Reg(kR8), 0u);
}

// The REX that does not count would make an immediate of eight bytes of one of two, and have what
// lies in another immediate executed, as a block of the same bytes.
class HiddenCodeTest : public CpuTest {
 protected:
  // mov ax,0x1234; jmp M; two nops; mov rax,`hidden`; M: syscall. Unicorn alone would take the
  // first for mov rax,0xb8489090'0ceb1234, and `hidden`, six bytes and jmp M, for what follows.
  void Hide(std::initializer_list<int> hidden) {
    Code({0x48, 0x66, 0xb8, 0x34, 0x12, 0xeb, 0x0c, 0x90, 0x90, 0x48, 0xb8});
    Code(hidden, 11);
    Code({0xeb, 0x00, 0x0f, 0x05}, 17);
    registers_.gpr[kRax] = kUpper;
  }
  void ExpectThatItIsNotExecuted() {
    for (bool step : {false, true}) {
      Restart();
      if (step) {
        EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
        EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
      }
      EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
      EXPECT_EQ(cpu_->count(), 2u);
      EXPECT_EQ(Reg(kRax), kUpper | 0x1234);
      EXPECT_EQ(Reg(kRbx), registers_.gpr[kRbx]);
      EXPECT_EQ(Reg(kRcx), registers_.gpr[kRcx]);
    }
  }
};

TEST_F(HiddenCodeTest, PrivilegedInstructionsAreNotExecuted) {
  registers_.gpr[kRbx] = 7;
  Hide({0x0f, 0x20, 0xc3, 0x0f, 0x1f, 0x00});  // mov rbx,cr0; nop
  ExpectThatItIsNotExecuted();
}

// A length of INT_MIN, with which Unicorn's helper runs through all memory.
TEST_F(HiddenCodeTest, WhatUnicornCannotSurviveIsNotExecuted) {
  registers_.gpr[kRdx] = 0x8000'0000;
  registers_.gpr[kRcx] = 3;
  Hide({0x66, 0x0f, 0x3a, 0x61, 0xc1, 0x0c});  // pcmpestri xmm0,xmm1,12
  ExpectThatItIsNotExecuted();
}

}  // namespace
}  // namespace hindsight
