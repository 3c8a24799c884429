#include "emulator/cpuid.h"

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr bool Has(uint32_t word, int bit) { return (word >> bit & 1) != 0; }

TEST(CpuidTest, VendorFamilyAndBrandAreTheHosts) {
  const CpuidResult mine = AnswerCpuid(0, 0), host = HostCpuid(0, 0);
  EXPECT_EQ(mine.ebx, host.ebx);
  EXPECT_EQ(mine.ecx, host.ecx);
  EXPECT_EQ(mine.edx, host.edx);
  EXPECT_EQ(AnswerCpuid(1, 0).eax, HostCpuid(1, 0).eax);
  EXPECT_EQ(AnswerCpuid(0x80000002, 0).eax, HostCpuid(0x80000002, 0).eax);
}

TEST(CpuidTest, TheBaselineOf64BitProgramsIsThere) {
  const CpuidResult leaf = AnswerCpuid(1, 0);
  for (int bit : {0, 4, 8, 15, 24, 25, 26}) {  // fpu tsc cx8 cmov fxsr sse sse2
    EXPECT_TRUE(Has(leaf.edx, bit)) << bit;
  }
  EXPECT_TRUE(Has(AnswerCpuid(0x80000001, 0).edx, 29));  // long mode
}

TEST(CpuidTest, NoFeatureThatIsNotEmulated) {
  const uint32_t ecx = AnswerCpuid(1, 0).ecx;
  for (int bit : {1, 12, 22, 23, 26, 27, 28, 29, 30}) {
    EXPECT_FALSE(Has(ecx, bit)) << bit;  // pclmul fma movbe popcnt xsave osxsave avx f16c rdrand
  }
  const CpuidResult leaf = AnswerCpuid(7, 0);
  EXPECT_EQ(leaf.ebx & ~(uint32_t{1} << 19), 0u);
  EXPECT_EQ(leaf.ecx, 0u);
  EXPECT_EQ(leaf.edx, 0u);
  EXPECT_EQ(AnswerCpuid(7, 1).eax, 0u);
  EXPECT_EQ(AnswerCpuid(0xd, 0).eax, 0u);
  EXPECT_EQ(AnswerCpuid(0xd, 1).eax, 0u);
}

TEST(CpuidTest, NothingTheHostHasNot) {
  EXPECT_EQ(AnswerCpuid(1, 0).ecx & ~HostCpuid(1, 0).ecx, 0u);
  EXPECT_EQ(AnswerCpuid(7, 0).ebx & ~HostCpuid(7, 0).ebx, 0u);
  EXPECT_EQ(AnswerCpuid(0x80000001, 0).ecx & ~HostCpuid(0x80000001, 0).ecx, 0u);
}

TEST(CpuidTest, TheAnswerDoesNotDependOnTheCore) {
  EXPECT_EQ(AnswerCpuid(1, 0).ebx >> 24, 0u);
  EXPECT_EQ(AnswerCpuid(0xb, 0).edx, 0u);
}

TEST(CpuidTest, MaximumLeavesAreNotAboveTheHosts) {
  EXPECT_LE(AnswerCpuid(0, 0).eax, HostCpuid(0, 0).eax);
  EXPECT_LE(AnswerCpuid(0x80000000, 0).eax, HostCpuid(0x80000000, 0).eax);
  EXPECT_GE(AnswerCpuid(0x80000000, 0).eax, 0x80000004u);
}

}  // namespace
}  // namespace hindsight
