#include "recorder/process/rseq.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

// A struct rseq at 0x100 that points to a sequence of [0x4000, 0x4020) described at 0x200.
class SequenceAtTest : public ::testing::Test {
 protected:
  SequenceAtTest() : memory_(0x300) {
    Put(0x108, 0x200);
    Put(0x208, 0x4000);
    Put(0x210, 0x20);
    Put(0x218, 0x5000);
  }
  void Put(uint64_t address, uint64_t value) {
    std::memcpy(&memory_[address], &value, sizeof(value));
  }
  std::optional<CriticalSequence> At(uint64_t pc, uint64_t rseq = 0x100) {
    return SequenceAt(rseq, pc, [&](uint64_t address, absl::Span<uint8_t> out) {
      if (address + out.size() > memory_.size()) return false;
      std::memcpy(out.data(), &memory_[address], out.size());
      return true;
    });
  }

  std::vector<uint8_t> memory_;
};

TEST_F(SequenceAtTest, IsBetweenItsFirstInstructionAndItsCommit) {
  EXPECT_FALSE(At(0x3fff).has_value());
  EXPECT_FALSE(At(0x4000).has_value());
  ASSERT_TRUE(At(0x4001).has_value());
  EXPECT_EQ(At(0x4001)->start, 0x4000u);
  EXPECT_EQ(At(0x4001)->end, 0x4020u);
  EXPECT_EQ(At(0x4001)->abort, 0x5000u);
  EXPECT_TRUE(At(0x401f).has_value());
  EXPECT_FALSE(At(0x4020).has_value());
}

TEST_F(SequenceAtTest, NoneWithoutPointerOrMemory) {
  Put(0x108, 0);
  EXPECT_FALSE(At(0x4001).has_value());
  Put(0x108, 0x123456);
  EXPECT_FALSE(At(0x4001).has_value());
  EXPECT_FALSE(At(0x4001, 0).has_value());
  EXPECT_FALSE(At(0x4001, 0x9999).has_value());
}

}  // namespace
}  // namespace hindsight
