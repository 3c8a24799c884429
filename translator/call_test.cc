// Given a block that ends in a call, then what returns look for lies where they look for it.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "translator/stubs.h"
#include "translator/thread_block.h"
#include "translator/translator.h"

namespace hindsight {
namespace {

constexpr uint64_t kArena = 0x10000000, kGuest = 0x400000;

template <typename T>
T At(const TranslatedBlock& block, uint32_t offset) {
  T value = 0;
  EXPECT_LE(offset + sizeof(value), block.exits_offset);
  std::memcpy(&value, &block.code[offset], sizeof(value));
  return value;
}

void ExpectReturnPlace(const std::vector<uint8_t>& bytes) {
  const Stubs stubs = EmitStubs(kArena);
  const auto block = Translate({.guest_pc = kGuest,
                                .bytes = bytes,
                                .host_address = kArena + kStubBytes,
                                .flavour = Flavour::kRecord,
                                .stubs = stubs.addresses});
  ASSERT_TRUE(block.ok());
  ASSERT_NE(block->return_offset, 0u);
  EXPECT_EQ(At<uint32_t>(*block, block->return_offset), HS_RETURN_CODE);
  EXPECT_EQ(At<uint64_t>(*block, block->return_offset + HS_RETURN_PC), kGuest + bytes.size());
}

TEST(CallTest, ThePlaceAfterItSaysWhereTheGuestReturns) {
  ExpectReturnPlace({0xe8, 0x00, 0x01, 0x00, 0x00});  // call
  ExpectReturnPlace({0xff, 0xd3});                    // call *%rbx
  ExpectReturnPlace({0x53, 0xff, 0x54, 0x24, 0x10});  // push %rbx; call *16(%rsp)
}

// How far the branch at the place after the call leads that `bytes` begin with, and whether it is
// one to the guest's code there.
int32_t BranchAfterCall(const std::vector<uint8_t>& bytes, bool* is_link) {
  constexpr uint64_t kCallBytes = 5;
  const Stubs stubs = EmitStubs(kArena);
  const auto block = Translate({.guest_pc = kGuest,
                                .bytes = bytes,
                                .host_address = kArena + kStubBytes,
                                .flavour = Flavour::kRecord,
                                .stubs = stubs.addresses,
                                .code_at = [&](uint64_t pc) {
                                  const uint64_t offset = std::min(pc - kGuest, bytes.size());
                                  return absl::MakeConstSpan(bytes).subspan(offset);
                                }});
  EXPECT_TRUE(block.ok());
  const uint32_t branch = block->return_offset + HS_RETURN_PC - 4;
  *is_link = std::any_of(block->links.begin(), block->links.end(), [&](const Link& link) {
    return link.rel32_offset == branch && link.guest_target == kGuest + kCallBytes;
  });
  return At<int32_t>(*block, branch);
}

TEST(CallTest, ThePlaceRestoresFlagsOnlyIfTheyAreRead) {
  bool is_link = false;
  // call; test %rax,%rax; ret
  BranchAfterCall({0xe8, 0, 1, 0, 0, 0x48, 0x85, 0xc0, 0xc3}, &is_link);
  EXPECT_TRUE(is_link);
  // call; jc
  const int32_t distance = BranchAfterCall({0xe8, 0, 1, 0, 0, 0x72, 0x10}, &is_link);
  EXPECT_FALSE(is_link);
  EXPECT_EQ(distance, 8);  // over the guest's pc
  // call, and nobody knows what follows.
  BranchAfterCall({0xe8, 0, 1, 0, 0}, &is_link);
  EXPECT_FALSE(is_link);
}

TEST(CallTest, WhatFaultsInTheStubsGoesOnWithinThem) {
  const Stubs stubs = EmitStubs(kArena);
  ASSERT_GE(stubs.code.size(), HS_STUB_FAULT + 5u);
  EXPECT_EQ(stubs.code[HS_STUB_FAULT], 0xe9);
  int32_t rel32 = 0;
  std::memcpy(&rel32, &stubs.code[HS_STUB_FAULT + 1], sizeof(rel32));
  const uint64_t target = kArena + HS_STUB_FAULT + 5 + static_cast<uint64_t>(int64_t{rel32});
  EXPECT_GT(target, stubs.addresses.return_to);
  EXPECT_LT(target, kArena + HS_STUB_FAULT);
}

}  // namespace
}  // namespace hindsight
