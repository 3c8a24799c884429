#include "emulator/code/x87_stack.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

const std::vector<uint8_t> kFcmovneSt2 = {0xdb, 0xca};
const std::vector<uint8_t> kFld1 = {0xd9, 0xe8};
const std::vector<uint8_t> kFstpSt0 = {0xdd, 0xd8};
const std::vector<uint8_t> kFfreeSt3 = {0xdd, 0xc3};
const std::vector<uint8_t> kFaddSt1 = {0xd8, 0xc1};
const std::vector<uint8_t> kFucompp = {0xda, 0xe9};

BlockX87Stack Of(const std::vector<std::vector<uint8_t>>& instructions) {
  std::vector<uint8_t> code;
  for (const auto& each : instructions) code.insert(code.end(), each.begin(), each.end());
  return X87StackOf(code);
}

void ExpectNeeds(uint8_t needed, const BlockX87Stack& block) {
  EXPECT_EQ(block.needed, needed);
  EXPECT_FALSE(block.unknown);
}

TEST(X87StackTest, WithoutOneNothingIsNeeded) { ExpectNeeds(0, Of({kFld1, kFaddSt1, kFstpSt0})); }

TEST(X87StackTest, BothRegistersAreNeeded) { ExpectNeeds(0b101, Of({kFcmovneSt2})); }

TEST(X87StackTest, NumbersAreThoseOfTheBeginning) {
  ExpectNeeds(0b10, Of({kFld1, kFcmovneSt2}));        // st(1) of then, and what was pushed
  ExpectNeeds(0b1010, Of({kFstpSt0, kFcmovneSt2}));   // st(1) and st(3)
  ExpectNeeds(0b10100, Of({kFucompp, kFcmovneSt2}));  // st(2) and st(4)
  ExpectNeeds(0, Of({kFld1, kFld1, kFld1, kFcmovneSt2}));
  ExpectNeeds(0b1111, Of({kFcmovneSt2, kFstpSt0, kFcmovneSt2}));
}

TEST(X87StackTest, WhatBecomesEmptyInTheBlockIsNotKnown) {
  EXPECT_TRUE(Of({kFfreeSt3, kFstpSt0, kFcmovneSt2}).unknown);
  EXPECT_TRUE(Of({{0xd9, 0xf6}, kFcmovneSt2}).unknown);  // fdecstp
  // Popped, and pushed again.
  ExpectNeeds(0b100, Of({kFstpSt0, kFld1, kFcmovneSt2}));
}

}  // namespace
}  // namespace hindsight
