// Given a block that ends in a call, then what returns look for lies where they look for it.

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
