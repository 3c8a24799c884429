#include "isa/comparison.h"

#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

using Bytes = std::vector<uint8_t>;

const Bytes kAddsd = {0xf2, 0x0f, 0x58, 0xc1};
const Bytes kPaddq = {0x66, 0x0f, 0xd4, 0xc1};

TEST(ComparisonTest, ADifferentRegisterIsReported) {
  RegisterFile host, emulated;
  emulated.gpr[kRbx] = 5;
  const Agreement agreement = AgreementFor(kPaddq);
  EXPECT_FALSE(Agree(agreement, host, emulated));
  EXPECT_EQ(DescribeDifference(agreement, host, emulated), "rbx 5 (native 0)");
  EXPECT_TRUE(Agree(agreement, host, host));
}

TEST(ComparisonTest, OnlyFlagsLeftUndefinedMayDiffer) {
  RegisterFile host, emulated;
  host.rflags = 0x10;                                                    // auxiliary carry
  EXPECT_TRUE(Agree(AgreementFor(Bytes{0x21, 0xc0}), host, emulated));   // and: undefined
  EXPECT_FALSE(Agree(AgreementFor(Bytes{0x01, 0xc0}), host, emulated));  // add: defined
  host.rflags = 1;
  EXPECT_FALSE(Agree(AgreementFor(Bytes{0x21, 0xc0}), host, emulated));
}

TEST(ComparisonTest, NoExceptionFlagMayDiffer) {
  RegisterFile host, emulated;
  emulated.mxcsr = 0x1f80;
  for (uint64_t mxcsr : {0x1f82, 0x1fa0, 0x7f80}) {  // denormal operand, inexact; rounding
    host.mxcsr = mxcsr;
    EXPECT_FALSE(Agree(AgreementFor(kAddsd), host, emulated)) << mxcsr;
  }
}

TEST(ComparisonTest, NansAreComparedBitByBit) {
  RegisterFile host, emulated;
  host.xmm[0][0] = 0x7ff8000000000001;
  emulated.xmm[0][0] = 0x7ff8000000000000;
  EXPECT_FALSE(Agree(AgreementFor(kAddsd), host, emulated));
}

TEST(ComparisonTest, WhichWayTheX87RoundedMustAgree) {
  RegisterFile host, emulated;
  host.fsw = 0x200;
  EXPECT_FALSE(Agree(AgreementFor(Bytes{0xd9, 0xe5}), host, emulated));  // fxam: the sign
  EXPECT_FALSE(Agree(AgreementFor(Bytes{0xd8, 0xc1}), host, emulated));  // fadd
}

}  // namespace
}  // namespace hindsight
