#include "isa/cpuid.h"

#include <optional>

#include "gtest/gtest.h"
#include "isa/host_features.h"

namespace hindsight {
namespace {

constexpr CpuModel kPortable = CpuModel::kPortable, kHost = CpuModel::kHost;

constexpr bool Has(uint32_t word, int bit) { return (word >> bit & 1) != 0; }

TEST(CpuidTest, VendorFamilyAndBrandAreTheHosts) {
  const CpuidResult mine = AnswerCpuid(kPortable, 0, 0), host = HostCpuid(0, 0);
  EXPECT_EQ(mine.ebx, host.ebx);
  EXPECT_EQ(mine.ecx, host.ecx);
  EXPECT_EQ(mine.edx, host.edx);
  EXPECT_EQ(AnswerCpuid(kPortable, 1, 0).eax, HostCpuid(1, 0).eax);
  EXPECT_EQ(AnswerCpuid(kPortable, 0x80000002, 0).eax, HostCpuid(0x80000002, 0).eax);
}

TEST(CpuidTest, TheBaselineOf64BitProgramsIsThere) {
  const CpuidResult leaf = AnswerCpuid(kPortable, 1, 0);
  for (int bit : {0, 4, 8, 15, 24, 25, 26}) {  // fpu tsc cx8 cmov fxsr sse sse2
    EXPECT_TRUE(Has(leaf.edx, bit)) << bit;
  }
  EXPECT_TRUE(Has(AnswerCpuid(kPortable, 0x80000001, 0).edx, 29));  // long mode
}

TEST(CpuidTest, NoFeatureThatIsNotEmulated) {
  const uint32_t ecx = AnswerCpuid(kPortable, 1, 0).ecx;
  for (int bit : {1, 12, 22, 23, 26, 27, 28, 29, 30}) {
    EXPECT_FALSE(Has(ecx, bit)) << bit;  // pclmul fma movbe popcnt xsave osxsave avx f16c rdrand
  }
  const CpuidResult leaf = AnswerCpuid(kPortable, 7, 0);
  EXPECT_EQ(leaf.ebx & ~(uint32_t{1} << 19), 0u);
  EXPECT_EQ(leaf.ecx, 0u);
  EXPECT_EQ(leaf.edx, 0u);
  EXPECT_EQ(AnswerCpuid(kPortable, 7, 1).eax, 0u);
  EXPECT_EQ(AnswerCpuid(kPortable, 0xd, 0).eax, 0u);
  EXPECT_EQ(AnswerCpuid(kPortable, 0xd, 1).eax, 0u);
}

TEST(CpuidTest, NothingTheHostHasNot) {
  EXPECT_EQ(AnswerCpuid(kPortable, 1, 0).ecx & ~HostCpuid(1, 0).ecx, 0u);
  EXPECT_EQ(AnswerCpuid(kPortable, 7, 0).ebx & ~HostCpuid(7, 0).ebx, 0u);
  EXPECT_EQ(AnswerCpuid(kPortable, 0x80000001, 0).ecx & ~HostCpuid(0x80000001, 0).ecx, 0u);
}

TEST(CpuidTest, TheAnswerDoesNotDependOnTheCore) {
  EXPECT_EQ(AnswerCpuid(kPortable, 1, 0).ebx >> 24, 0u);
  EXPECT_EQ(AnswerCpuid(kPortable, 0xb, 0).edx, 0u);
}

TEST(CpuidTest, MaximumLeavesAreNotAboveTheHosts) {
  EXPECT_LE(AnswerCpuid(kPortable, 0, 0).eax, HostCpuid(0, 0).eax);
  EXPECT_LE(AnswerCpuid(kPortable, 0x80000000, 0).eax, HostCpuid(0x80000000, 0).eax);
  EXPECT_GE(AnswerCpuid(kPortable, 0x80000000, 0).eax, 0x80000004u);
}

TEST(CpuidTest, ModelsHaveNames) {
  EXPECT_EQ(CpuModelNamed("host"), kHost);
  EXPECT_EQ(CpuModelNamed("portable"), kPortable);
  EXPECT_EQ(CpuModelNamed(NameOf(kHost)), kHost);
  EXPECT_EQ(CpuModelNamed(NameOf(kPortable)), kPortable);
  EXPECT_EQ(CpuModelNamed("Host"), std::nullopt);
  EXPECT_EQ(CpuModelNamed(""), std::nullopt);
}

// What the kernel says of the processor is what the program sees.
TEST(CpuidTest, HostOffersWhatNativeAssistExecutes) {
  const HostFeatures host = HostFeatures::OfThisHost();
  const CpuidResult one = AnswerCpuid(kHost, 1, 0), seven = AnswerCpuid(kHost, 7, 0);
  EXPECT_EQ(Has(one.ecx, 28), host.Has(HostFeature::kAvx));
  EXPECT_EQ(Has(one.ecx, 12), host.Has(HostFeature::kFma));
  EXPECT_EQ(Has(one.ecx, 29), host.Has(HostFeature::kF16c));
  EXPECT_EQ(Has(one.ecx, 1), host.Has(HostFeature::kPclmulqdq));
  EXPECT_EQ(Has(one.ecx, 22), host.Has(HostFeature::kMovbe));
  EXPECT_EQ(Has(seven.ebx, 0), host.Has(HostFeature::kFsgsbase));
  EXPECT_EQ(Has(seven.ebx, 3), host.Has(HostFeature::kBmi1));
  EXPECT_EQ(Has(seven.ebx, 5), host.Has(HostFeature::kAvx2));
  EXPECT_EQ(Has(seven.ebx, 8), host.Has(HostFeature::kBmi2));
  EXPECT_EQ(Has(seven.ebx, 16), host.Has(HostFeature::kAvx512F));
  EXPECT_EQ(Has(seven.ebx, 31), host.Has(HostFeature::kAvx512Vl));
  EXPECT_EQ(Has(seven.ecx, 9), host.Has(HostFeature::kVaes));
  EXPECT_EQ(Has(AnswerCpuid(kHost, 7, 1).eax, 4), host.Has(HostFeature::kAvxVnni));
}

TEST(CpuidTest, OnlyLeavesWithSubleavesLookAtEcx) {
  for (uint32_t leaf : {1u, 0x80000001u}) {
    for (CpuModel model : {kPortable, kHost}) {
      const CpuidResult a = AnswerCpuid(model, leaf, 0), b = AnswerCpuid(model, leaf, 0x12345);
      EXPECT_EQ(a.ecx, b.ecx) << leaf;
      EXPECT_EQ(a.edx, b.edx) << leaf;
    }
  }
}

TEST(CpuidTest, HostHidesWhatCannotBeRecorded) {
  const CpuidResult seven = AnswerCpuid(kHost, 7, 0);
  for (int bit : {4, 9, 11, 14}) EXPECT_FALSE(Has(seven.ebx, bit)) << bit;  // hle erms rtm mpx
  for (int bit : {3, 4, 5, 7, 27, 28, 29}) {  // pku ospke waitpkg shstk movdiri movdir64b enqcmd
    EXPECT_FALSE(Has(seven.ecx, bit)) << bit;
  }
  for (int bit : {4, 5, 20, 22, 24, 25}) {  // fsrm uintr ibt amx-bf16 amx-tile amx-int8
    EXPECT_FALSE(Has(seven.edx, bit)) << bit;
  }
  EXPECT_FALSE(Has(AnswerCpuid(kHost, 1, 0).ecx, 3));            // monitor
  EXPECT_FALSE(Has(AnswerCpuid(kHost, 0x80000001, 0).ecx, 11));  // xop
  EXPECT_FALSE(Has(AnswerCpuid(kHost, 0x80000001, 0).ecx, 16));  // fma4
  EXPECT_LE(seven.eax, 1u);
}

TEST(CpuidTest, HostOffersNothingTheHostHasNot) {
  for (uint32_t leaf : {1u, 7u, 0x80000001u}) {
    for (uint32_t subleaf : {0u, 1u}) {
      const CpuidResult mine = AnswerCpuid(kHost, leaf, subleaf), host = HostCpuid(leaf, subleaf);
      if (leaf == 7 && subleaf == 0) {
        EXPECT_LE(mine.eax, host.eax);  // how many subleaves there are
      } else {
        EXPECT_EQ(mine.eax & ~host.eax, 0u) << leaf;
      }
      EXPECT_EQ(mine.ecx & ~host.ecx, 0u) << leaf;
      EXPECT_EQ(mine.edx & ~host.edx, 0u) << leaf;
      if (leaf == 1) continue;  // there: processors
      EXPECT_EQ(mine.ebx & ~host.ebx, 0u) << leaf;
    }
  }
}

// A program that follows the architecture's way to AVX gets there, and finds the area to save it.
TEST(CpuidTest, HostIsConsistentAboutXsave) {
  const CpuidResult one = AnswerCpuid(kHost, 1, 0);
  if (!Has(one.ecx, 28)) GTEST_SKIP() << "no AVX here";
  EXPECT_TRUE(Has(one.ecx, 26));
  EXPECT_TRUE(Has(one.ecx, 27));
  const CpuidResult area = AnswerCpuid(kHost, 0xd, 0), host = HostCpuid(0xd, 0);
  EXPECT_EQ(area.eax & 7, 7u);  // x87, SSE, AVX
  EXPECT_EQ(area.ebx, host.ebx);
  EXPECT_EQ(AnswerCpuid(kHost, 0xd, 2).ebx, HostCpuid(0xd, 2).ebx);
  EXPECT_GE(AnswerCpuid(kHost, 0, 0).eax, 0xdu);
}

}  // namespace
}  // namespace hindsight
