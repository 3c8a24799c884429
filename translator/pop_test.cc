// Given a block that pops, when the comparison of what was popped faults, then the side table says
// how to get back to the state before the instruction.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "translator/stubs.h"
#include "translator/thread_block.h"
#include "translator/translator.h"

namespace hindsight {
namespace {

constexpr uint64_t kArena = 0x10000000, kGuest = 0x400000;
constexpr uint8_t kPopRbx = 0x5b, kReturn = 0xc3;

TranslatedBlock Translated(const std::vector<uint8_t>& bytes) {
  const Stubs stubs = EmitStubs(kArena);
  return *Translate({.guest_pc = kGuest,
                     .bytes = bytes,
                     .host_address = kArena + kStubBytes,
                     .flavour = Flavour::kRecord,
                     .stubs = stubs.addresses});
}

const SideEntry& EntryAt(const TranslatedBlock& block, uint32_t host_offset) {
  auto after = std::upper_bound(
      block.side.begin(), block.side.end(), host_offset,
      [](uint32_t wanted, const SideEntry& entry) { return wanted < entry.host_offset; });
  return *std::prev(after);
}

bool IsPopped(const SideEntry& entry) {
  return std::count(entry.saved.begin(), entry.saved.end(), HS_POPPED) == 1;
}

// Offset of the code's first pop %rbx: nothing before it has that byte.
uint32_t FindPop(const TranslatedBlock& block) {
  return static_cast<uint32_t>(std::find(block.code.begin(), block.code.end(), kPopRbx) -
                               block.code.begin());
}

TEST(PopTest, TheStackPointerIsBackUntilThePopHasBeenCompared) {
  const TranslatedBlock block = Translated({kPopRbx, kReturn});
  const uint32_t pop = FindPop(block);
  ASSERT_LT(pop, block.exits_offset);
  EXPECT_EQ(EntryAt(block, pop).guest_offset, 0u);
  EXPECT_FALSE(IsPopped(EntryAt(block, pop)));
  EXPECT_EQ(EntryAt(block, pop + 1).guest_offset, 0u);
  EXPECT_TRUE(IsPopped(EntryAt(block, pop + 1)));
}

TEST(PopTest, WhatFollowsThePopHasTheStackPointerInPlace) {
  const TranslatedBlock block = Translated({kPopRbx, kReturn});
  const auto next = std::find_if(block.side.begin(), block.side.end(),
                                 [](const SideEntry& entry) { return entry.guest_offset == 1; });
  ASSERT_NE(next, block.side.end());
  EXPECT_FALSE(IsPopped(*next));
}

TEST(PopTest, AReturnIsTakenBackInTheSameWay) {
  const TranslatedBlock block = Translated({kReturn});
  EXPECT_EQ(std::count_if(block.side.begin(), block.side.end(), IsPopped), 1);
  EXPECT_LE(block.exits_offset, 88u) << "returns are many, and each byte of code takes time";
}

}  // namespace
}  // namespace hindsight
