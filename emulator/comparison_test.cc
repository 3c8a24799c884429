#include "emulator/comparison.h"

#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

using Bytes = std::vector<uint8_t>;

const Bytes kAddsd = {0xf2, 0x0f, 0x58, 0xc1};
const Bytes kAddps = {0x0f, 0x58, 0xc1};
const Bytes kPaddq = {0x66, 0x0f, 0xd4, 0xc1};

TEST(ComparisonTest, ADifferentRegisterIsTold) {
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

TEST(ComparisonTest, OnlyTheDenormalFlagMayDiffer) {
  RegisterFile host, emulated;
  host.mxcsr = 0x1f82;
  emulated.mxcsr = 0x1f80;
  EXPECT_TRUE(Agree(AgreementFor(kAddsd), host, emulated));
  emulated.mxcsr = 0x1fa0;  // inexact
  EXPECT_FALSE(Agree(AgreementFor(kAddsd), host, emulated));
  emulated.mxcsr = 0x7f80;  // rounding
  EXPECT_FALSE(Agree(AgreementFor(kAddsd), host, emulated));
}

TEST(ComparisonTest, WhichOfTwoNansMayDiffer) {
  RegisterFile host, emulated;
  host.xmm[0][0] = 0x7ff8000000000001;
  emulated.xmm[0][0] = 0xfff8000000000000;
  EXPECT_TRUE(Agree(AgreementFor(kAddsd), host, emulated));
  EXPECT_FALSE(Agree(AgreementFor(kPaddq), host, emulated));
  emulated.xmm[0][0] = 0x7ff0000000000000;  // infinity is not a NaN
  EXPECT_FALSE(Agree(AgreementFor(kAddsd), host, emulated));
  // Lanes of 32 bits: one NaN does not excuse the other lane.
  host.xmm[0][0] = 0x7fc000013f800000;
  emulated.xmm[0][0] = 0xffc000003f800000;
  EXPECT_TRUE(Agree(AgreementFor(kAddps), host, emulated));
  emulated.xmm[0][0] = 0xffc000003f800001;
  EXPECT_FALSE(Agree(AgreementFor(kAddps), host, emulated));
}

TEST(ComparisonTest, TheSignThatFxamTellsMustAgree) {
  RegisterFile host, emulated;
  host.fsw = 0x200;
  EXPECT_FALSE(Agree(AgreementFor(Bytes{0xd9, 0xe5}), host, emulated));  // fxam
  EXPECT_TRUE(Agree(AgreementFor(Bytes{0xd8, 0xc1}), host, emulated));   // fadd
}

}  // namespace
}  // namespace hindsight
