#include "isa/alignment.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "isa/registers.h"

namespace hindsight {
namespace {

using Bytes = std::vector<uint8_t>;

BlockAlignment Of(std::initializer_list<Bytes> instructions, uint64_t address = 0x1000) {
  Bytes code;
  for (const Bytes& instruction : instructions) {
    code.insert(code.end(), instruction.begin(), instruction.end());
  }
  return AlignmentOf(address, code);
}

AlignmentCheck Check(std::initializer_list<AlignmentCheck::Term> terms, uint8_t constant) {
  AlignmentCheck check;
  for (const AlignmentCheck::Term& term : terms) check.terms[check.term_count++] = term;
  check.constant = constant;
  return check;
}

const Bytes kMovapsFromRdi = {0x0f, 0x28, 0x07};        // movaps xmm0,[rdi]
const Bytes kMovapsFromRdi8 = {0x0f, 0x28, 0x47, 8};    // movaps xmm0,[rdi+8]
const Bytes kAddRdi16 = {0x48, 0x83, 0xc7, 0x10};       // add rdi,16
const Bytes kAddRdi8 = {0x48, 0x83, 0xc7, 0x08};        // add rdi,8
const Bytes kLoadRdi = {0x48, 0x8b, 0x3e};              // mov rdi,[rsi]
const Bytes kAndRdi = {0x48, 0x83, 0xe7, 0xf0};         // and rdi,-16
const Bytes kMovupsFromRdi = {0x0f, 0x10, 0x07};        // movups xmm0,[rdi]
const Bytes kPushRax = {0x50};                          // push rax
const Bytes kMovapsToStack = {0x0f, 0x29, 0x04, 0x24};  // movaps [rsp],xmm0

TEST(AlignmentTest, TheOperandsRegisterIsLookedAt) {
  const BlockAlignment block = Of({kMovapsFromRdi});
  EXPECT_FALSE(block.unknown);
  EXPECT_EQ(block.checks, std::vector{Check({{kRdi, 1}}, 0)});
}

TEST(AlignmentTest, WhatHappensToItInTheBlockCounts) {
  EXPECT_EQ(Of({kAddRdi8, kMovapsFromRdi}).checks, std::vector{Check({{kRdi, 1}}, 8)});
  EXPECT_EQ(Of({kPushRax, kMovapsToStack}).checks, std::vector{Check({{kRsp, 1}}, 8)});
  // lea rax,[rdi+rsi*4+3]; movaps xmm0,[rax+1]
  EXPECT_EQ(Of({{0x48, 0x8d, 0x44, 0xb7, 0x03}, {0x0f, 0x28, 0x40, 0x01}}).checks,
            std::vector{Check({{kRsi, 4}, {kRdi, 1}}, 4)});
}

TEST(AlignmentTest, EqualAddressesAreLookedAtOnce) {
  EXPECT_EQ(Of({kMovapsFromRdi, kAddRdi16, kMovapsFromRdi}).checks.size(), 1);
  EXPECT_EQ(Of({kMovapsFromRdi, kMovapsFromRdi8}).checks.size(), 2);
}

TEST(AlignmentTest, WhatIsAlignedInTheBlockNeedsNoLook) {
  const BlockAlignment block = Of({kLoadRdi, kAndRdi, kMovapsFromRdi});
  EXPECT_TRUE(block.checks.empty());
  EXPECT_FALSE(block.unknown);
}

TEST(AlignmentTest, RelativeToTheInstruction) {
  const Bytes movaps = {0x0f, 0x28, 0x05, 9, 0, 0, 0};  // movaps xmm0,[rip+9], 7 bytes
  EXPECT_TRUE(Of({movaps}, 0x1000).checks.empty());
  EXPECT_EQ(Of({movaps}, 0x1001).checks, std::vector{Check({}, 1)});
}

TEST(AlignmentTest, AddressesComputedInTheBlockAreUnknown) {
  EXPECT_TRUE(Of({kLoadRdi, kMovapsFromRdi}).unknown);
  EXPECT_TRUE(Of({{0x64, 0x0f, 0x28, 0x07}}).unknown);  // movaps xmm0,fs:[rdi]
}

TEST(AlignmentTest, InstructionsThatNeedNone) {
  const BlockAlignment block = Of({kMovupsFromRdi, {0xf3, 0x0f, 0x6f, 0x07}, kLoadRdi});
  EXPECT_TRUE(block.checks.empty());
  EXPECT_FALSE(block.unknown);
}

TEST(AlignmentTest, ALoopInStridesKeepsItsAlignment) {
  EXPECT_TRUE(Of({kMovapsFromRdi, kAddRdi16}).kept);
  EXPECT_FALSE(Of({kMovapsFromRdi, kAddRdi8}).kept);
  EXPECT_FALSE(Of({kMovapsFromRdi, kLoadRdi}).kept);
}

}  // namespace
}  // namespace hindsight
