// Random instructions natively and translated: the same registers, flags, memory and faults.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "translator/checks/twin_run.h"

namespace hindsight {
namespace {

using Parameters = std::tuple<FormKind, Flavour>;

class FormsTest : public testing::TestWithParam<Parameters> {};

TEST_P(FormsTest, SingleInstructionsAgree) {
  const auto [kind, flavour] = GetParam();
  for (const TwinPlace& place : TwinPlaces()) {
    TwinRun twin(place, flavour, TestSeed());
    for (int i = 0; i < 5000; ++i) {
      const TwinResult result = twin.RunForm(kind);
      ASSERT_EQ(result.difference, "") << result.description;
    }
    EXPECT_GT(twin.completed(), 500u);
    EXPECT_GT(twin.faulted(), 50u);
    if (flavour == Flavour::kRecord) {
      EXPECT_GT(twin.translated().misses() + twin.translated().locked_left(), 50u);
      if (kind == FormKind::kLocked) {
        EXPECT_GT(twin.locked(), 500u);
        EXPECT_GT(twin.translated().locked_left(), 50u);
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
  for (int i = 0; i < 10'000; ++i) {
    const TwinResult result = twin.RunForm(FormKind::kLegacy);
    ASSERT_EQ(result.difference, "") << result.description;
  }
  EXPECT_EQ(twin.translated().operations(), 0u);
}

class TrustedViewTest : public testing::TestWithParam<FormKind> {};

TEST_P(TrustedViewTest, WhatMissesIsExecutedOnceMore) {
  TwinRun twin(TwinPlaces()[0], Flavour::kRecord, TestSeed(), {.trust_view = true});
  for (int i = 0; i < 10'000; ++i) {
    const TwinResult result = twin.RunForm(GetParam());
    ASSERT_EQ(result.difference, "") << result.description;
  }
  // One miss each, at most.
  EXPECT_GT(twin.translated().misses(), 50u);
  EXPECT_LT(twin.translated().misses(), 10'000u);
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

INSTANTIATE_TEST_SUITE_P(All, TrustedViewTest,
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
