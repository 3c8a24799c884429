#include "emulator/cpu/register_patch.h"

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(RegisterPatchTest, DifferenceAppliedGivesTheNewRegisters) {
  RegisterFile before, after;
  after.rip = 1;
  after.st[7][1] = 0xffff;
  EXPECT_EQ(Difference(before, after).index.size(), 2u);
  after.k[7] = 5;
  const RegisterPatch patch = Difference(before, after);
  EXPECT_EQ(patch.index.size(), 3u);
  ASSERT_TRUE(Apply(patch, &before));
  EXPECT_EQ(before, after);
  EXPECT_TRUE(Difference(before, after).index.empty());
}

TEST(RegisterPatchTest, PatchOutsideTheLayoutChangesNothing) {
  RegisterFile registers;
  RegisterPatch patch;
  patch.index = {0, kRegisterWords};
  patch.value = {1, 1};
  EXPECT_FALSE(Apply(patch, &registers));
  EXPECT_EQ(registers, RegisterFile());
}

TEST(RegisterPatchTest, PatchWithoutAValueForEachIndexIsRejected) {
  RegisterFile registers;
  RegisterPatch patch;
  patch.index = {0, 1};
  patch.value = {1};
  EXPECT_FALSE(Apply(patch, &registers));
}

}  // namespace
}  // namespace hindsight
