#include "isa/registers.h"

#include <xxhash.h>

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(RegistersTest, WordsRoundTrip) {
  RegisterFile registers;
  registers.gpr[kR15] = 1;
  registers.xmm[15][1] = 2;
  RegisterFile copy;
  ASSERT_TRUE(FromWords(ToWords(registers), &copy));
  EXPECT_EQ(copy, registers);
}

TEST(RegistersTest, TheOlderLayoutLeavesExtendedRegistersZero) {
  RegisterFile registers, out;
  registers.xmm[15][1] = 2;
  std::vector<uint64_t> words = ToWords(registers);
  words.resize(kBaseWords);
  out.k[7] = 1;
  ASSERT_TRUE(FromWords(words, &out));
  EXPECT_EQ(out, registers);
}

TEST(RegistersTest, WordsOfAnotherLayoutAreRejected) {
  std::vector<uint64_t> words(kRegisterWords - 1);
  RegisterFile out;
  out.rip = 7;
  EXPECT_FALSE(FromWords(words, &out));
  EXPECT_EQ(out.rip, 7u);
}

TEST(RegistersTest, HashDistinguishesRegisters) {
  RegisterFile a, b;
  b.fdp = 1;
  EXPECT_NE(Hash(a), 0u);
  EXPECT_NE(Hash(a), Hash(b));
}

TEST(RegistersTest, HashIsThatOfTheOlderLayoutWhileExtendedRegistersAreZero) {
  RegisterFile registers;
  registers.xmm[1][0] = 7;
  EXPECT_EQ(Hash(registers), XXH3_64bits(&registers, kBaseWords * sizeof(uint64_t)));
  const uint64_t base = Hash(registers);
  registers.zmm16[15][7] = 1;
  EXPECT_NE(Hash(registers), base);
}

TEST(RegistersTest, EveryExtendedRegisterCounts) {
  EXPECT_FALSE(HasExtended(RegisterFile()));
  for (size_t i = kBaseWords; i < kRegisterWords; ++i) {
    std::vector<uint64_t> words(kRegisterWords);
    words[i] = uint64_t{1} << 63;
    RegisterFile registers;
    ASSERT_TRUE(FromWords(words, &registers));
    EXPECT_TRUE(HasExtended(registers)) << RegisterWordName(i);
    EXPECT_FALSE(registers == RegisterFile());
  }
}

TEST(RegistersTest, WordNamesFollowTheLayout) {
  EXPECT_STREQ(RegisterWordName(kRsp), "rsp");
  EXPECT_STREQ(RegisterWordName(offsetof(RegisterFile, rip) / 8), "rip");
  EXPECT_STREQ(RegisterWordName(offsetof(RegisterFile, mxcsr) / 8), "mxcsr");
  EXPECT_STREQ(RegisterWordName(offsetof(RegisterFile, st) / 8 + 3), "st1.hi");
  EXPECT_STREQ(RegisterWordName(kBaseWords - 1), "xmm15.hi");
  EXPECT_STREQ(RegisterWordName(offsetof(RegisterFile, ymm_high) / 8 + 1), "ymm0.3");
  EXPECT_STREQ(RegisterWordName(offsetof(RegisterFile, zmm_high) / 8 + 4), "zmm1.4");
  EXPECT_STREQ(RegisterWordName(offsetof(RegisterFile, zmm16) / 8), "zmm16.0");
  EXPECT_STREQ(RegisterWordName(kRegisterWords - 1), "k7");
  EXPECT_STREQ(RegisterWordName(kRegisterWords), "?");
  std::set<std::string> names;
  for (size_t i = 0; i < kRegisterWords; ++i) names.insert(RegisterWordName(i));
  EXPECT_EQ(names.size(), kRegisterWords);
}

}  // namespace
}  // namespace hindsight
