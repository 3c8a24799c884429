#include "translator/guest/register_choice.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "isa/registers.h"

namespace hindsight {
namespace {

std::vector<GuestInstruction> Decode(const std::vector<uint8_t>& code) {
  std::vector<GuestInstruction> instructions;
  absl::Span<const uint8_t> rest = code;
  uint64_t pc = 0x1000;
  while (!rest.empty()) {
    GuestInstruction instruction;
    EXPECT_TRUE(DecodeGuest(pc, rest, &instruction));
    pc += instruction.decoded.length;
    rest.remove_prefix(instruction.decoded.length);
    instructions.push_back(instruction);
  }
  return instructions;
}

constexpr uint16_t Bits(int a, int b, int c) {
  return static_cast<uint16_t>(1 << a | 1 << b | 1 << c);
}

TEST(RegisterChoiceTest, WhatIsOverwrittenNextIsTaken) {
  // nop; mov %rbx,%rsi; mov %rax,%rdx: rax and rbx are read, rsi and rdx overwritten.
  const auto block = Decode({0x90, 0x48, 0x89, 0xde, 0x48, 0x89, 0xc2});
  RegisterChoice choice(block);
  EXPECT_EQ(choice.Take(Bits(kRax, kRbx, kRdx)), kRdx);
  EXPECT_EQ(choice.Take(Bits(kRax, kRbx, kRsi)), kRsi);
}

TEST(RegisterChoiceTest, WhatIsReadLastIsTakenWhereAllAre) {
  // nop; add %rbx,%rsi; add %rax,%rdx
  const auto block = Decode({0x90, 0x48, 0x01, 0xde, 0x48, 0x01, 0xc2});
  RegisterChoice choice(block);
  EXPECT_EQ(choice.Take(Bits(kRax, kRbx, kRsi)), kRax);
  // Seen from the second instruction rax comes first, and those of the first one in the next round.
  choice.Advance(1);
  EXPECT_EQ(choice.Take(Bits(kRax, kRax, kRbx)), kRbx);
}

TEST(RegisterChoiceTest, APartThatIsWrittenIsRead) {
  // nop; mov %al,%dl; mov (%rsi),%rsi: neither rdx nor rsi is overwritten without being read.
  const auto block = Decode({0x90, 0x88, 0xc2, 0x48, 0x8b, 0x36, 0x48, 0x31, 0xdb});
  RegisterChoice choice(block);
  EXPECT_EQ(choice.Take(Bits(kRdx, kRsi, kR12)), kR12);
}

TEST(RegisterChoiceTest, WhatIsNotUsedIsTakenInTurn) {
  const auto block = Decode({0x90});
  RegisterChoice choice(block);
  const uint16_t all = Bits(kRbx, kR12, kR13);
  uint16_t taken = 0;
  for (int i = 0; i < 3; ++i) taken |= static_cast<uint16_t>(1 << choice.Take(all));
  EXPECT_EQ(taken, all);
}

TEST(RegisterChoiceTest, AnExchangeThatIsDecodedAsAPauseUsesItsRegisters) {
  const auto block = Decode({0xf3, 0x90, 0xf3, 0x41, 0x90});
  EXPECT_EQ(UsedRegisters(block[0]), 0);
  EXPECT_EQ(UsedRegisters(block[1]), 1 << kRax | 1 << kR8);
}

TEST(RegisterChoiceTest, OfNoneNoneIsTaken) {
  const auto block = Decode({0x90});
  EXPECT_EQ(RegisterChoice(block).Take(0), -1);
}

}  // namespace
}  // namespace hindsight
