#include "emulator/registers.h"

#include <set>
#include <string>

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

TEST(RegistersTest, WordsOfAnotherLayoutAreRejected) {
  RegisterWords words(kRegisterWords - 1);
  RegisterFile out;
  out.rip = 7;
  EXPECT_FALSE(FromWords(words, &out));
  EXPECT_EQ(out.rip, 7u);
}

TEST(RegistersTest, DifferenceAppliedGivesTheNewRegisters) {
  RegisterFile before, after;
  after.rip = 1;
  after.st[7][1] = 0xffff;
  const RegisterPatch patch = Difference(before, after);
  EXPECT_EQ(patch.index.size(), 2u);
  ASSERT_TRUE(Apply(patch, &before));
  EXPECT_EQ(before, after);
  EXPECT_TRUE(Difference(before, after).index.empty());
}

TEST(RegistersTest, PatchOutsideTheLayoutChangesNothing) {
  RegisterFile registers;
  RegisterPatch patch;
  patch.index = {0, kRegisterWords};
  patch.value = {1, 1};
  EXPECT_FALSE(Apply(patch, &registers));
  EXPECT_EQ(registers, RegisterFile());
}

TEST(RegistersTest, PatchWithoutAValueForEachIndexIsRejected) {
  RegisterFile registers;
  RegisterPatch patch;
  patch.index = {0, 1};
  patch.value = {1};
  EXPECT_FALSE(Apply(patch, &registers));
}

TEST(RegistersTest, HashTellsRegistersApart) {
  RegisterFile a, b;
  b.fdp = 1;
  EXPECT_NE(Hash(a), 0u);
  EXPECT_NE(Hash(a), Hash(b));
}

TEST(RegistersTest, WordNamesFollowTheLayout) {
  EXPECT_STREQ(RegisterWordName(kRsp), "rsp");
  EXPECT_STREQ(RegisterWordName(offsetof(RegisterFile, rip) / 8), "rip");
  EXPECT_STREQ(RegisterWordName(offsetof(RegisterFile, mxcsr) / 8), "mxcsr");
  EXPECT_STREQ(RegisterWordName(offsetof(RegisterFile, st) / 8 + 3), "st1.hi");
  EXPECT_STREQ(RegisterWordName(kRegisterWords - 1), "xmm15.hi");
  EXPECT_STREQ(RegisterWordName(kRegisterWords), "?");
  std::set<std::string> names;
  for (size_t i = 0; i < kRegisterWords; ++i) names.insert(RegisterWordName(i));
  EXPECT_EQ(names.size(), kRegisterWords);
}

}  // namespace
}  // namespace hindsight
