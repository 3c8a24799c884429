// Random instructions natively and translated: the same registers, flags, memory and faults.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "isa/host_features.h"
#include "translator/checks/twin_run.h"

namespace hindsight {
namespace {

using Parameters = std::tuple<FormKind, Flavour>;

class FormsTest : public testing::TestWithParam<Parameters> {};

TEST_P(FormsTest, SingleInstructionsAgree) {
  const auto [kind, flavour] = GetParam();
  if (kind == FormKind::kEvex && !HostFeatures::OfThisHost().Has(HostFeature::kAvx512F)) {
    GTEST_SKIP() << "no AVX-512 here";
  }
  for (const TwinPlace& place : TwinPlaces()) {
    TwinRun twin(place, flavour, TestSeed());
    for (int i = 0; i < TestRounds(2000); ++i) {
      const TwinResult result = twin.RunForm(kind);
      ASSERT_EQ(result.difference, "") << result.description;
    }
    EXPECT_GT(twin.completed(), 200u);
    EXPECT_GT(twin.faulted(), 20u);
    if (flavour == Flavour::kRecord) {
      EXPECT_GT(twin.translated().misses() + twin.translated().locked_left(), 20u);
      if (kind == FormKind::kLocked) {
        EXPECT_GT(twin.locked(), 200u);
        EXPECT_GT(twin.translated().locked_left(), 20u);
      }
    }
  }
}

std::string NameOf(const testing::TestParamInfo<Parameters>& info) {
  static constexpr const char* kKinds[] = {"Legacy", "X87", "Vex", "Evex", "Locked"};
  const auto [kind, flavour] = info.param;
  return absl::StrCat(kKinds[static_cast<int>(kind)],
                      flavour == Flavour::kPlain ? "Plain" : "Record");
}

TEST(WithoutOperationsTest, LegacyInstructionsAgree) {
  TwinRun twin(TwinPlaces()[0], Flavour::kRecord, TestSeed(), {.operations = false});
  for (int i = 0; i < TestRounds(4000); ++i) {
    const TwinResult result = twin.RunForm(FormKind::kLegacy);
    ASSERT_EQ(result.difference, "") << result.description;
  }
  EXPECT_EQ(twin.translated().operations(), 0u);
}

class TrustedViewTest : public testing::TestWithParam<FormKind> {};

TEST_P(TrustedViewTest, WhatMissesIsExecutedOnceMore) {
  TwinRun twin(TwinPlaces()[0], Flavour::kRecord, TestSeed(), {.trust_view = true});
  for (int i = 0; i < TestRounds(4000); ++i) {
    const TwinResult result = twin.RunForm(GetParam());
    ASSERT_EQ(result.difference, "") << result.description;
  }
  // One miss each, at most.
  EXPECT_GT(twin.translated().misses(), 20u);
  EXPECT_LT(twin.translated().misses(), static_cast<uint64_t>(TestRounds(4000)));
}

class ExclusiveMemoryTest : public testing::TestWithParam<FormKind> {};

TEST_P(ExclusiveMemoryTest, NothingIsCompared) {
  for (const TwinPlace& place : TwinPlaces()) {
    TwinRun twin(place, Flavour::kRecord, TestSeed(), {.exclusive = true});
    for (int i = 0; i < TestRounds(4000); ++i) {
      const TwinResult result = twin.RunForm(GetParam());
      ASSERT_EQ(result.difference, "") << result.description;
    }
    EXPECT_EQ(twin.translated().misses(), 0u);
  }
}

class WatchedLoadsTest : public testing::TestWithParam<FormKind> {};

TEST_P(WatchedLoadsTest, SingleInstructionsAgree) {
  TwinRun twin(TwinPlaces()[1], Flavour::kRecord, TestSeed(),
               {.exclusive = true, .watches_loads = true});
  for (int i = 0; i < TestRounds(4000); ++i) {
    const TwinResult result = twin.RunForm(GetParam());
    ASSERT_EQ(result.difference, "") << result.description;
  }
  EXPECT_GT(twin.translated().misses(), 20u);
}

// bt to btc with a register, relative to eip: what lies below address 0 lies below 4 GiB.
TEST(BitTestTest, BitsFarFromAConstantNarrowAddressAgree) {
  constexpr uint8_t kOpcodes[] = {0xa3, 0xab, 0xb3, 0xbb};
  for (const Flavour flavour : {Flavour::kPlain, Flavour::kRecord}) {
    for (const TwinPlace& place : TwinPlaces()) {
      TwinRun twin(place, flavour, TestSeed());
      for (const uint8_t opcode : kOpcodes) {
        // 0(%eip), %rax
        const uint8_t code[] = {0x67, 0x48, 0x0f, opcode, 0x05, 0, 0, 0, 0, 0xcc};
        std::copy(std::begin(code), std::end(code), twin.code().begin());
        RegisterFile registers = twin.Registers();
        registers.rip = place.code;
        const auto next = static_cast<uint32_t>(place.code + sizeof(code) - 1);
        registers.gpr[kRax] = 0 - 8 * (uint64_t{next} + 0x3000);
        const TwinResult result = twin.Run(registers, 1);
        EXPECT_EQ(result.difference, "") << place.name << "\n" << result.description;
      }
      EXPECT_EQ(twin.faulted() + twin.refused(), std::size(kOpcodes));
    }
  }
}

// Loads by a mask are compared with the view as far as the mask goes, wherever the operand lies: at
// the end of memory the rest of it is not there.
TEST(MaskedLoadsTest, AreTranslatedAndAgree) {
  if (!HostHasMasks()) GTEST_SKIP() << "this host has no AVX-512";
  const std::vector<uint8_t> forms[] = {
      {0x62, 0xe1, 0x7f, 0x2a, 0x6f, 0x16},        // vmovdqu8 (%rsi),%ymm18{%k2}
      {0x62, 0xf1, 0x7c, 0xcf, 0x10, 0x1e},        // vmovups (%rsi),%zmm3{%k7}{z}
      {0x62, 0xf3, 0x6d, 0x22, 0x3f, 0x0e, 0x04},  // vpcmpneqb (%rsi),%ymm18,%k1{%k2}
      {0x62, 0xf2, 0x6d, 0x4e, 0x27, 0x3e},        // vptestmd (%rsi),%zmm2,%k7{%k6}
      {0xc4, 0xe2, 0x55, 0x2c, 0x26},              // vmaskmovps (%rsi),%ymm5,%ymm4
      {0xc4, 0x62, 0x99, 0x8c, 0x2e},              // vpmaskmovq (%rsi),%xmm12,%xmm13
  };
  for (const TwinPlace& place : TwinPlaces()) {
    TwinRun twin(place, Flavour::kRecord, TestSeed());
    for (int i = 0; i < 600; ++i) {
      const std::vector<uint8_t>& form = forms[static_cast<size_t>(i) % std::size(forms)];
      std::fill_n(twin.code().begin(), 32, uint8_t{0xcc});
      std::copy(form.begin(), form.end(), twin.code().begin());
      twin.FillMemory();
      RegisterFile registers = twin.Registers();
      registers.rip = place.code;
      const OperandMemory memory = twin.memory();
      const bool at_end = (*twin.random())() % 2 == 0;
      registers.gpr[kRsi] = at_end ? memory.end - 1 - (*twin.random())() % 64
                                   : memory.begin + (*twin.random())() % 4000;
      const TwinResult result = twin.Run(registers, 1);
      ASSERT_EQ(result.difference, "") << place.name << " form " << i << "\n" << result.description;
      ASSERT_FALSE(result.refused);
    }
    EXPECT_GT(twin.completed(), 300u);
    EXPECT_GT(twin.faulted(), 50u);
    EXPECT_GT(twin.translated().misses(), 50u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrustedViewTest,
                         testing::Values(FormKind::kLegacy, FormKind::kX87, FormKind::kVex,
                                         FormKind::kEvex, FormKind::kLocked));

INSTANTIATE_TEST_SUITE_P(All, WatchedLoadsTest,
                         testing::Values(FormKind::kLegacy, FormKind::kVex, FormKind::kEvex));

INSTANTIATE_TEST_SUITE_P(All, ExclusiveMemoryTest,
                         testing::Values(FormKind::kLegacy, FormKind::kX87, FormKind::kVex,
                                         FormKind::kEvex, FormKind::kLocked));

INSTANTIATE_TEST_SUITE_P(All, FormsTest,
                         testing::Combine(testing::Values(FormKind::kLegacy, FormKind::kX87,
                                                          FormKind::kVex, FormKind::kEvex,
                                                          FormKind::kLocked),
                                          testing::Values(Flavour::kPlain, Flavour::kRecord)),
                         NameOf);

}  // namespace
}  // namespace hindsight
