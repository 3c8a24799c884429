#include "recorder/emulate/thread/answered_instructions.h"

#include <gtest/gtest.h>
#include <x86intrin.h>

namespace hindsight {
namespace {

constexpr uint8_t kCpuidCode[] = {0x0f, 0xa2};
constexpr uint8_t kRdtscCode[] = {0x0f, 0x31};
constexpr uint8_t kRdtscpCode[] = {0x0f, 0x01, 0xf9};
constexpr uint8_t kRdrandCode[] = {0x0f, 0xc7, 0xf0};
constexpr uint64_t kGarbage = 0x1122334455667788;

RegisterFile Before() {
  RegisterFile registers;
  for (uint64_t& gpr : registers.gpr) gpr = kGarbage;
  registers.rip = 0x1000;
  return registers;
}

TEST(AnsweredInstructionsTest, OnlyCpuidWhereTheCounterMayBeForbidden) {
  EXPECT_TRUE(IsAnswered(Classify(kCpuidCode), false));
  EXPECT_TRUE(IsAnswered(Classify(kCpuidCode), true));
  EXPECT_TRUE(IsAnswered(Classify(kRdtscCode), false));
  EXPECT_TRUE(IsAnswered(Classify(kRdtscpCode), false));
  EXPECT_FALSE(IsAnswered(Classify(kRdtscCode), true));
  EXPECT_FALSE(IsAnswered(Classify(kRdtscpCode), true));
  EXPECT_FALSE(IsAnswered(Classify(kRdrandCode), false));
}

TEST(AnsweredInstructionsTest, CpuidAnswersForTheModel) {
  const CpuModel model = CpuModel{};
  RegisterFile before = Before();
  before.gpr[kRax] = 1;
  before.gpr[kRcx] = 0;
  const RegisterFile after = AnswerInstruction(Classify(kCpuidCode), model, before);
  const CpuidResult expected = AnswerCpuid(model, 1, 0);
  EXPECT_EQ(after.rip, 0x1002u);
  EXPECT_EQ(after.gpr[kRax], expected.eax);
  EXPECT_EQ(after.gpr[kRbx], expected.ebx);
  EXPECT_EQ(after.gpr[kRcx], expected.ecx);
  EXPECT_EQ(after.gpr[kRdx], expected.edx);
  EXPECT_EQ(after.gpr[kRsi], kGarbage);
}

TEST(AnsweredInstructionsTest, CounterIsTheHosts) {
  const uint64_t earlier = __rdtsc();
  const RegisterFile after = AnswerInstruction(Classify(kRdtscCode), {}, Before());
  const uint64_t later = __rdtsc();
  const uint64_t ticks = after.gpr[kRdx] << 32 | after.gpr[kRax];
  EXPECT_LE(earlier, ticks);
  EXPECT_LE(ticks, later);
  EXPECT_EQ(after.gpr[kRcx], kGarbage);
}

TEST(AnsweredInstructionsTest, RdtscpTellsTheProcessorToo) {
  const RegisterFile after = AnswerInstruction(Classify(kRdtscpCode), {}, Before());
  EXPECT_EQ(after.rip, 0x1003u);
  EXPECT_LT(after.gpr[kRcx], uint64_t{1} << 32);
}

}  // namespace
}  // namespace hindsight
