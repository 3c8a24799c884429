// Given instructions that each need a register to work with, when one has spilled it, then it stays
// spilled as far as the next ones do not use it, and the side table says so.

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "gtest/gtest.h"
#include "translator/stubs.h"
#include "translator/thread_block.h"
#include "translator/translator.h"

namespace hindsight {
namespace {

constexpr uint64_t kArena = 0x10000000, kGuest = 0x400000;

using Bytes = std::vector<uint8_t>;

const Bytes kAdd = {0x66, 0x41, 0x0f, 0x58, 0x03};            // addpd (%r11),%xmm0
const Bytes kAddNext = {0x66, 0x41, 0x0f, 0x58, 0x43, 0x10};  // addpd 16(%r11),%xmm0
const Bytes kReturn = {0xc3};

class KeptRegisterTest : public testing::Test {
 protected:
  void Translate(std::initializer_list<Bytes> instructions) {
    Bytes bytes;
    offsets_.clear();
    for (const Bytes& instruction : instructions) {
      offsets_.push_back(static_cast<uint32_t>(bytes.size()));
      bytes.insert(bytes.end(), instruction.begin(), instruction.end());
    }
    const Stubs stubs = EmitStubs(kArena);
    block_ = *hindsight::Translate({.guest_pc = kGuest,
                                    .bytes = bytes,
                                    .host_address = kArena + kStubBytes,
                                    .flavour = Flavour::kRecord,
                                    .stubs = stubs.addresses});
  }

  // What the first slot has where instruction `number` begins, and at its last access.
  uint8_t SavedFirst(size_t number) const { return Entries(number).front(); }
  uint8_t SavedLast(size_t number) const { return Entries(number).back(); }

 private:
  std::vector<uint8_t> Entries(size_t number) const {
    std::vector<uint8_t> saved;
    for (const SideEntry& entry : block_.side) {
      if (entry.guest_offset == offsets_[number]) saved.push_back(entry.saved[0]);
    }
    return saved;
  }

  std::vector<uint32_t> offsets_;
  TranslatedBlock block_;
};

// mov %number,(%rsp)
Bytes Store(uint8_t number) {
  return {static_cast<uint8_t>(0x48 | (number >= 8 ? 4 : 0)), 0x89,
          static_cast<uint8_t>(0x04 | (number & 7) << 3), 0x24};
}

TEST_F(KeptRegisterTest, StaysSpilledForTheNextInstruction) {
  Translate({kAdd, kAddNext, kReturn});
  EXPECT_EQ(SavedFirst(0), HS_NOT_SAVED);
  const uint8_t spilled = SavedFirst(1);
  ASSERT_LT(spilled, 16);
  EXPECT_EQ(SavedLast(1), spilled);
}

TEST_F(KeptRegisterTest, IsBackForWhoUsesIt) {
  // Some register is spilled, which one of these stores.
  Translate({kAdd, Store(0), Store(1), Store(2), Store(3), Store(5), Store(6), Store(7), Store(8),
             Store(9), Store(12), Store(13), Store(14), Store(15), kReturn});
  const std::vector<uint8_t> stored = {0, 1, 2, 3, 5, 6, 7, 8, 9, 12, 13, 14, 15};
  const uint8_t spilled = SavedFirst(1);
  ASSERT_LT(spilled, 16);
  bool is_back = false;
  for (size_t i = 0; i < stored.size(); ++i) {
    is_back |= stored[i] == spilled;
    EXPECT_EQ(SavedLast(i + 1), is_back ? HS_NOT_SAVED : spilled) << i;
  }
  EXPECT_TRUE(is_back);
}

TEST_F(KeptRegisterTest, IsBackWhereTheBlockEnds) {
  Translate({kAdd, kReturn});
  EXPECT_LT(SavedLast(0), 16);
  EXPECT_EQ(SavedLast(1), HS_NOT_SAVED);
}

TEST_F(KeptRegisterTest, IsBackForWhatTheAgentDoes) {
  Translate({kAdd, {0x0f, 0xae, 0x1c, 0x24}, kReturn});  // stmxcsr (%rsp)
  EXPECT_LT(SavedFirst(1), 16);
  EXPECT_EQ(SavedLast(1), HS_NOT_SAVED);
}

}  // namespace
}  // namespace hindsight
