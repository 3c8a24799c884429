// Given code with conditional jumps forward, then a block goes on after them, as far as it should.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "translator/stubs.h"
#include "translator/translator.h"

namespace hindsight {
namespace {

constexpr uint64_t kArena = 0x10000000, kGuest = 0x400000;

const std::vector<uint8_t> kTest = {0x48, 0x85, 0xc0};   // test %rax,%rax
const std::vector<uint8_t> kUndefined = {0x0f, 0x0b};    // ud2
const std::vector<uint8_t> kStore = {0x48, 0x89, 0x07};  // mov %rax,(%rdi)
const std::vector<uint8_t> kReturn = {0xc3};

std::vector<uint8_t> JumpIfZero(int8_t distance) { return {0x74, static_cast<uint8_t>(distance)}; }

class SideExitTest : public testing::Test {
 protected:
  TranslatedBlock Translated(const std::vector<std::vector<uint8_t>>& instructions) {
    std::vector<uint8_t> bytes;
    for (const auto& each : instructions) bytes.insert(bytes.end(), each.begin(), each.end());
    // There is nothing after them that could be looked at.
    const auto code_at = [&](uint64_t pc) {
      const uint64_t offset = std::min<uint64_t>(pc - request_.guest_pc, bytes.size());
      return absl::MakeConstSpan(bytes).subspan(offset);
    };
    request_.bytes = bytes;
    request_.host_address = kArena + kStubBytes;
    request_.flavour = Flavour::kRecord;
    request_.stubs = EmitStubs(kArena).addresses;
    request_.code_at = code_at;
    const auto block = Translate(request_);
    EXPECT_TRUE(block.ok()) << block.status();
    return block.ok() ? *block : TranslatedBlock();
  }
  static std::vector<uint64_t> TargetsOf(const TranslatedBlock& block) {
    std::vector<uint64_t> targets;
    for (const Link& link : block.links) targets.push_back(link.guest_target - kGuest);
    return targets;
  }

  TranslateRequest request_ = {.guest_pc = kGuest};
};

TEST_F(SideExitTest, ABlockGoesOnAfterAJumpForward) {
  const TranslatedBlock block =
      Translated({kTest, JumpIfZero(64), kTest, JumpIfZero(32), kTest, JumpIfZero(-15)});
  EXPECT_EQ(block.instructions, 6u);
  EXPECT_EQ(block.guest_bytes, 15u);
  EXPECT_EQ(TargetsOf(block), (std::vector<uint64_t>{69, 42, 0, 15}));
}

TEST_F(SideExitTest, WhatIsExecutedIsCountedUpToTheExit) {
  const TranslatedBlock block = Translated({kTest, JumpIfZero(64), kTest, kTest, JumpIfZero(-12)});
  // What has been counted at the beginning of each instruction, less what it is the number of.
  std::vector<int> ahead(12, -1);
  for (const SideEntry& entry : block.side) ahead[entry.guest_offset] = entry.adjust;
  EXPECT_EQ(ahead[3], -1);  // two of two
  EXPECT_EQ(ahead[8], -2);  // three more of three
  EXPECT_EQ(ahead[11], -1);
}

TEST_F(SideExitTest, ItEndsWhereAnExitLeads) {
  const TranslatedBlock block = Translated({kTest, JumpIfZero(3), kTest, kTest, kReturn});
  EXPECT_EQ(block.instructions, 3u);
  EXPECT_EQ(TargetsOf(block), (std::vector<uint64_t>{8, 8}));
}

TEST_F(SideExitTest, ItEndsAtAJumpBack) {
  const TranslatedBlock block = Translated({kTest, JumpIfZero(-5), kTest, kReturn});
  EXPECT_EQ(block.instructions, 2u);
  EXPECT_EQ(TargetsOf(block), (std::vector<uint64_t>{0, 5}));
}

TEST_F(SideExitTest, ItEndsBeforeWhatIsNotExecutedInTranslatedCode) {
  const TranslatedBlock block = Translated({kTest, JumpIfZero(64), kTest, kUndefined});
  EXPECT_EQ(block.instructions, 2u);
  EXPECT_EQ(block.refusal, "");
}

TEST_F(SideExitTest, ItEndsAtTheEndOfThePage) {
  request_.guest_pc = kGuest + 4096 - 5;
  EXPECT_EQ(Translated({kTest, JumpIfZero(64), kTest, kReturn}).instructions, 2u);
}

TEST_F(SideExitTest, OfCodeThatMayChangeItEndsAtEachJump) {
  request_.may_change = true;
  EXPECT_EQ(Translated({kTest, JumpIfZero(64), kTest, kReturn}).instructions, 2u);
}

TEST_F(SideExitTest, FlagsThatAreReadWhereAnExitLeadsAreKept) {
  // test; jz A; mov (%rdi),%rax; test; ret; A: jc B
  const std::vector<uint8_t> load = {0x48, 0x8b, 0x07}, jump_if_carry = {0x72, 0x10};
  const TranslatedBlock read =
      Translated({kTest, JumpIfZero(7), load, kTest, kReturn, jump_if_carry});
  const TranslatedBlock overwritten =
      Translated({kTest, JumpIfZero(7), load, kTest, kReturn, kTest});
  const auto exact_at_jump = [](const TranslatedBlock& block) {
    uint16_t exact = 0;
    for (const SideEntry& entry : block.side) {
      if (entry.guest_offset == 3) exact = entry.flags_exact;
    }
    return exact;
  };
  constexpr uint16_t kCarry = 1, kZero = 0x40;
  EXPECT_EQ(exact_at_jump(read) & (kCarry | kZero), kCarry | kZero);
  EXPECT_EQ(exact_at_jump(overwritten) & (kCarry | kZero), kZero);
}

}  // namespace
}  // namespace hindsight
