// Arbitrary bytes of a guest, executed by host assist, reach nothing of the host's.

#include "emulator/checks/assist_probe.h"

#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "base/test_seed.h"
#include "emulator/assist/host_encoding.h"
#include "emulator/checks/encodings.h"
#include "emulator/checks/odd_encodings.h"
#include "emulator/code/instruction.h"
#include "gtest/gtest.h"
#include "isa/decoder.h"

namespace hindsight {
namespace {

class AssistProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    auto probe = AssistProbe::Create(seed_);
    ASSERT_TRUE(probe.ok()) << probe.status();
    probe_ = *std::move(probe);
  }
  void TearDown() override {
    std::cout << assisted_ << " assisted, " << completed_ << " without a fault" << std::endl;
  }

  void Try(absl::Span<const uint8_t> code) {
    const AssistProbe::Result result = probe_->Try(code);
    assisted_ += result.assisted;
    completed_ += result.completed;
    EXPECT_EQ(result.wrong, "") << absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(code.data()), code.size()));
  }

  const uint64_t seed_ = TestSeed();
  std::mt19937_64 random_{seed_};
  std::unique_ptr<AssistProbe> probe_;
  uint64_t assisted_ = 0, completed_ = 0;
};

// Each kept a segment or a 32-bit address after a misplaced REX, or would have.
TEST_F(AssistProbeTest, AMisplacedRexBringsNoPrefixWithIt) {
  const std::vector<std::vector<uint8_t>> all = {
      {0x48, 0x67, 0x64, 0x0f, 0x6f, 0x07},        // movq mm0,fs:[edi]
      {0x48, 0x67, 0x64, 0x0f, 0x7f, 0x07},        // movq fs:[edi],mm0
      {0x48, 0x64, 0x0f, 0x53, 0x07},              // rcpps xmm0,fs:[rdi]
      {0x67, 0x40, 0x65, 0x0f, 0x53, 0x07},        // rcpps xmm0,gs:[edi]
      {0x4f, 0x65, 0x66, 0x0f, 0x38, 0xf0, 0x07},  // movbe ax,gs:[rdi]
      {0x41, 0x64, 0x8b, 0x07},                    // mov eax,fs:[rdi]
      {0x41, 0x64, 0x67, 0x89, 0x07},              // mov fs:[edi],eax
      {0x48, 0x64, 0xc5, 0xfc, 0x10, 0x07},        // vmovups ymm0,fs:[rdi]
      {0x44, 0x64, 0x0f, 0xc7, 0x0f},              // cmpxchg8b fs:[rdi]
  };
  for (const auto& bytes : all) {
    const uint64_t before = completed_;
    for (int i = 0; i < 20; ++i) Try(bytes);
    EXPECT_GT(completed_, before);
  }
}

// `std` and its like would stay in force when the host goes on.
TEST_F(AssistProbeTest, WhatChangesTheHostIsNotExecutedThere) {
  const std::vector<std::vector<uint8_t>> all = {
      {0xfd},                          // std
      {0x48, 0x66, 0xfd},              // the same
      {0xfc},                          // cld
      {0xcc},                          // int3
      {0xf1},                          // int1
      {0x0f, 0x05},                    // syscall
      {0xcd, 0x80},                    // int 0x80
      {0x9d},                          // popf
      {0xaa},                          // stosb
      {0x0f, 0x01, 0xca},              // clac
      {0x0f, 0x0b},                    // ud2
      {0xeb, 0x00},                    // jmp
      {0x48, 0x0f, 0xa3, 0x0f},        // bt [rdi],rcx: far from rdi
      {0x66, 0x48, 0x0f, 0xab, 0x0f},  // bts [rdi],rcx
  };
  for (const auto& bytes : all) {
    EXPECT_FALSE(probe_->Try(bytes).assisted) << absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
}

TEST_F(AssistProbeTest, EveryEncodingStaysWithinItsOperand) {
  for (const Encoding& encoding : AllEncodings(&random_)) Try(encoding.bytes);
  for (const Encoding& encoding : AllVectorEncodings(&random_)) Try(encoding.bytes);
  EXPECT_GT(completed_, 10'000u);
}

TEST_F(AssistProbeTest, PrefixesAndRandomBytesStayWithinTheirOperand) {
  for (const auto& prefixes : PrefixSequences(3)) {
    for (int i = 0; i < 4; ++i) Try(WithPrefixes(prefixes, &random_));
  }
  for (int i = 0; i < 40'000; ++i) Try(RandomBytes(&random_));
  for (int i = 0; i < 5'000; ++i) Try(LongestForm(&random_));
  EXPECT_GT(completed_, 3'000u);
}

// What the policy gives to the assist, the host can be given: it does not come as a surprise.
TEST_F(AssistProbeTest, WhatIsAssistableCanBeEncoded) {
  std::vector<Encoding> all = AllEncodings(&random_);
  const std::vector<Encoding> vectors = AllVectorEncodings(&random_);
  all.insert(all.end(), vectors.begin(), vectors.end());
  for (const Encoding& encoding : all) {
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT] = {};
    ASSERT_TRUE(Decode(encoding.bytes, &decoded, operands));
    if (!HasHostAssist(decoded, operands)) continue;
    const Instruction instruction = Classify(encoding.bytes);
    const bool goes = instruction.policy == Policy::kAssist || instruction.floating;
    if (!goes) continue;
    EXPECT_TRUE(MakeHostPlan(decoded, operands).has_value())
        << MnemonicName(instruction.mnemonic) << " "
        << absl::BytesToHexString(absl::string_view(
               reinterpret_cast<const char*>(encoding.bytes.data()), encoding.length));
  }
}

class AsPlannedTest : public testing::Test {
 protected:
  HostPlan Plan(std::vector<uint8_t> bytes) {
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT] = {};
    EXPECT_TRUE(Decode(bytes, &decoded, operands));
    auto plan = MakeHostPlan(decoded, operands);
    EXPECT_TRUE(plan.has_value());
    return plan.value_or(HostPlan{});
  }
};

TEST_F(AsPlannedTest, OnlyTheInstructionItselfIsAccepted) {
  const HostPlan plan = Plan({0x64, 0x0f, 0x53, 0x4c, 0x91, 0x08});  // rcpps xmm1,fs:[rcx+rdx*4+8]
  ASSERT_EQ(plan.memory_register, kRdi);
  EXPECT_EQ(plan.code, (std::vector<uint8_t>{0x0f, 0x53, 0x0f}));
  const std::vector<std::vector<uint8_t>> wrong = {
      {0x64, 0x0f, 0x53, 0x0f},        // fs
      {0x65, 0x0f, 0x53, 0x0f},        // gs
      {0x67, 0x0f, 0x53, 0x0f},        // edi
      {0x41, 0x0f, 0x53, 0x0f},        // r15
      {0x44, 0x0f, 0x53, 0x0f},        // xmm9
      {0x0f, 0x53, 0x0e},              // rsi
      {0x0f, 0x53, 0x4f, 0x01},        // [rdi+1]
      {0x0f, 0x53, 0x0c, 0x0f},        // [rdi+rcx]
      {0x0f, 0x53, 0x0d, 0, 0, 0, 0},  // [rip]
      {0x0f, 0x53, 0xcf},              // xmm7
      {0x0f, 0x52, 0x0f},              // rsqrtps
      {0xf3, 0x0f, 0x53, 0x0f},        // rcpss
      {0x0f, 0x53, 0x0f, 0x90},        // and another instruction
      {0x0f, 0x53},                    // less than one
      {},
  };
  EXPECT_TRUE(IsAsPlanned(plan, plan.code));
  for (const auto& code : wrong) {
    EXPECT_FALSE(IsAsPlanned(plan, code)) << absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(code.data()), code.size()));
  }
}

TEST_F(AsPlannedTest, TheHostsStackPointerIsNeverNamed) {
  const std::vector<std::vector<uint8_t>> all = {
      {0x66, 0x0f, 0xcc},                          // bswap sp
      {0x48, 0x0f, 0x38, 0xf0, 0x27},              // movbe rsp,[rdi]
      {0xc4, 0xe2, 0xd8, 0xf2, 0xc1},              // andn rax,rsp,rcx
      {0x66, 0x49, 0x0f, 0x3a, 0x16, 0xcc, 0x01},  // pextrq r12,xmm1,1: not rsp
  };
  for (const auto& code : all) {
    const HostPlan plan = Plan(code);
    EXPECT_TRUE(IsAsPlanned(plan, plan.code));
    const bool names_rsp = &code != &all.back();
    EXPECT_EQ(plan.rsp_stand_in != HostPlan::kNoStandIn, names_rsp);
    EXPECT_EQ(IsAsPlanned(plan, code), !names_rsp);
  }
}

}  // namespace
}  // namespace hindsight
