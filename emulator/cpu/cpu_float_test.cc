// Floating point is computed by the host's unit, as the guest's control says; with exceptions that
// are not masked, without the engine.

#include <gtest/gtest.h>

#include <cfenv>
#include <cstring>

#include "emulator/cpu/cpu_fixture.h"
#include "emulator/unicorn/float_helpers.h"

namespace hindsight {
namespace {

constexpr uint64_t kDivideByZeroMask = 0x200, kFlushToZero = 0x8000;

class CpuFloatTest : public CpuTest {
 protected:
  void SetUp() override {
    CpuTest::SetUp();
    // ldmxcsr [rdi]; mov ecx,20; L: divsd xmm0,xmm1; dec ecx; jnz L; divsd xmm0,xmm2; nop; syscall
    Code({0x0f, 0xae, 0x17, 0xb9, 20,   0,    0,    0,    0xf2, 0x0f, 0x5e, 0xc1,
          0xff, 0xc9, 0x75, 0xf8, 0xf2, 0x0f, 0x5e, 0xc2, 0x90, 0x0f, 0x05});
    SetDouble(0, 3.0);
    SetDouble(1, 2.0);
    SetDouble(2, 0.0);
  }

  void SetDouble(int number, double value) {
    std::memcpy(&registers_.xmm[number][0], &value, sizeof(value));
  }
  void LoadsMxcsr(uint64_t value) { std::memcpy(pages_[kData].data(), &value, 4); }
  double Xmm0() {
    double value;
    std::memcpy(&value, &cpu_->registers().xmm[0][0], sizeof(value));
    return value;
  }

  static constexpr uint64_t kDivisionByZero = 2 + 20 * 3;  // the state before it
};

TEST_F(CpuFloatTest, AMaskedExceptionIsNoFault) {
  LoadsMxcsr(0x1f80);
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), kDivisionByZero + 2);
}

TEST_F(CpuFloatTest, OneThatIsNotMaskedFaultsAtItsInstruction) {
  LoadsMxcsr(0x1f80 & ~kDivideByZeroMask);
  Start();
  RunResult result = RunTo(~uint64_t{0});
  while (result.stop == Stop::kFault && cpu_->count() < kDivisionByZero) {
    Restart();
    result = RunTo(result.block_count);
    ASSERT_EQ(result.stop, Stop::kLimit);
    while (cpu_->count() < kDivisionByZero) ASSERT_EQ(cpu_->Step().stop, Stop::kLimit);
    result = cpu_->Step();
  }
  EXPECT_EQ(result.stop, Stop::kFault);
  EXPECT_EQ(cpu_->count(), kDivisionByZero);
  EXPECT_EQ(cpu_->pc(), kCode + 16);
  EXPECT_EQ(Xmm0(), 3.0 / (1 << 20));
}

TEST_F(CpuFloatTest, EveryCountBeforeCanBeStoppedAt) {
  LoadsMxcsr(0x1f80 & ~kDivideByZeroMask);
  Start();
  for (uint64_t limit = 1; limit <= kDivisionByZero; ++limit) {
    ASSERT_EQ(RunTo(limit).stop, Stop::kLimit);
    ASSERT_EQ(cpu_->count(), limit);
  }
  EXPECT_EQ(Xmm0(), 3.0 / (1 << 20));
}

TEST_F(CpuFloatTest, ControlSetFromOutsideHoldsAsWell) {
  LoadsMxcsr(0x1f80 & ~kDivideByZeroMask);
  registers_.mxcsr = 0x1f80 & ~kDivideByZeroMask;
  registers_.rip = kCode + 16;
  Start();
  EXPECT_EQ(cpu_->Step().stop, Stop::kFault);
  registers_.mxcsr = 0x1f80;
  Start();
  EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
}

TEST_F(CpuFloatTest, DenormalsAreFlushed) {
  for (const bool flush : {false, true}) {
    SetDouble(0, 3e-308);
    LoadsMxcsr(0x1f80 | (flush ? kFlushToZero : 0));
    Restart();
    ASSERT_EQ(RunTo(2 + 3 * 3).stop, Stop::kLimit);
    EXPECT_EQ(Xmm0(), flush ? 0 : 3e-308 / 8);
  }
}

TEST_F(CpuFloatTest, TheX87ControlWordCountsToo) {
  // fldcw [rdi]; fld1; fldz; fdivp st1,st0; fwait; syscall
  Code({0xd9, 0x2f, 0xd9, 0xe8, 0xd9, 0xee, 0xde, 0xf9, 0x9b, 0x0f, 0x05});
  LoadsMxcsr(0x37f);
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  LoadsMxcsr(0x37f & ~4);  // divide by zero
  Restart();
  for (int i = 0; i < 4; ++i) ASSERT_EQ(cpu_->Step().stop, Stop::kLimit);
  EXPECT_EQ(cpu_->Step().stop, Stop::kFault);
  EXPECT_EQ(cpu_->pc(), kCode + 8);
}

// The host's unit while generated code runs.
class CpuHostFloatTest : public CpuFloatTest {
 protected:
  void SetUp() override {
    CpuFloatTest::SetUp();
    ASSERT_TRUE(FloatHelpersInUse());
  }
  bool OnMissing(uint64_t page, Access access) override {
    // Inexact, in both units; and rounded as the host's own control says.
    volatile double quotient = 1;
    quotient = quotient / 3;
    volatile long double extended = 1;
    extended = extended / 3;
    rounded_up_ |= quotient != 1.0 / 3;
    return CpuFloatTest::OnMissing(page, access);
  }
  bool rounded_up_ = false;
};

TEST_F(CpuHostFloatTest, WhatThePagerComputesLeavesNoFlag) {
  // movsd xmm3,[rdi]; fld1; jmp to the next page, which is missing then; there: syscall
  pages_[kCode + kPageBytes].resize(kPageBytes);
  Code({0xf2, 0x0f, 0x10, 0x1f, 0xd9, 0xe8, 0xe9, 0xf5, 0x0f, 0x00, 0x00});
  Code({0x90, 0x0f, 0x05}, 0, kCode + kPageBytes);
  registers_.mxcsr = 0x5f80;  // round up
  registers_.fcw = 0xb7f;
  Start();
  ASSERT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 4u);
  EXPECT_EQ(cpu_->registers().mxcsr, 0x5f80u);
  EXPECT_EQ(cpu_->registers().fsw & 0xff, 0u);
  EXPECT_FALSE(rounded_up_);
}

TEST_F(CpuHostFloatTest, TheHostsOwnControlIsBackAfterARun) {
  // divsd xmm0,xmm2; fld1; fldz; fdivp; syscall
  Code({0xf2, 0x0f, 0x5e, 0xc2, 0xd9, 0xe8, 0xd9, 0xee, 0xde, 0xf9, 0x0f, 0x05});
  registers_.mxcsr = 0x7f80;
  registers_.fcw = 0xc7f;
  std::feclearexcept(FE_ALL_EXCEPT);
  Start();
  ASSERT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->registers().mxcsr, 0x7f84u);  // divide by zero
  EXPECT_EQ(cpu_->registers().fsw & 0xff, 4u);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), 0);
}

TEST_F(CpuHostFloatTest, OneOfTwoNansIsTheFirstOperand) {
  Code({0xf2, 0x0f, 0x58, 0xc1, 0x90, 0x0f, 0x05});  // addsd xmm0,xmm1; nop; syscall
  registers_.xmm[0][0] = 0x7ff8000000000001;
  registers_.xmm[1][0] = 0xfff8000000000002;
  Start();
  ASSERT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->registers().xmm[0][0], 0x7ff8000000000001u);
}

TEST_F(CpuHostFloatTest, TheNinthPushOverflowsTheStack) {
  Code({0xd9, 0xe8, 0xff, 0xc9, 0x75, 0xfa, 0x0f, 0x05});  // L: fld1; dec ecx; jnz L; syscall
  registers_.gpr[kRcx] = 8;
  Start();
  ASSERT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->registers().fsw & 0x241, 0u);
  registers_.gpr[kRcx] = 9;
  Restart();
  ASSERT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->registers().fsw & 0x241, 0x241u);  // invalid, of the stack, overflow
  EXPECT_EQ(cpu_->registers().st[0][0], 0xc000000000000000u);
  EXPECT_EQ(cpu_->registers().st[0][1], 0xffffu);
}

class CpuFcmovTest : public CpuTest {
 protected:
  void SetUp() override {
    CpuTest::SetUp();
    Code(
        {0x31, 0xc0, 0xdb, 0xc9, 0x90, 0x0f, 0x05});  // xor eax,eax; fcmovne st,st(1); nop; syscall
    // The same after ffree st(1).
    Code({0x31, 0xc0, 0xdd, 0xc1, 0xdb, 0xc9, 0x90, 0x0f, 0x05}, kAfterFfree);
    registers_.fsw = 6 << 11;
    registers_.ftw = 0xc0;
    registers_.st[0][0] = 0x8000'0000'0000'0000;
    registers_.st[0][1] = kOneExponent;
  }
  // As a block, and instruction by instruction.
  void Expect(uint64_t stack_fault, uint64_t exponent) {
    for (const bool step : {false, true}) {
      SCOPED_TRACE(step);
      Start();
      while (step && cpu_->Step().stop == Stop::kLimit) continue;
      EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
      EXPECT_EQ(cpu_->registers().fsw & kStackFault, stack_fault);
      EXPECT_EQ(cpu_->registers().st[0][1], exponent);
    }
  }

  static constexpr uint64_t kAfterFfree = 0x100, kStackFault = 0x41;
  static constexpr uint64_t kOneExponent = 0x3fff, kIndefiniteExponent = 0xffff;
};

TEST_F(CpuFcmovTest, DoesNothingIfItDoesNotMove) { Expect(0, kOneExponent); }

TEST_F(CpuFcmovTest, FaultsIfARegisterIsEmptyWhereTheBlockBegins) {
  registers_.ftw = 0x40;
  Expect(kStackFault, kIndefiniteExponent);
}

TEST_F(CpuFcmovTest, FaultsIfARegisterBecomesEmptyInTheBlock) {
  registers_.rip = kCode + kAfterFfree;
  Expect(kStackFault, kIndefiniteExponent);
}

}  // namespace
}  // namespace hindsight
