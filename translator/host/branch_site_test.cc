#include "translator/host/branch_site.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>

namespace hindsight {
namespace {

// Code that is executed: a branch at the beginning, whose rel32 is at 4, padding, and three places
// that return 1, 2 and 3.
class BranchSiteTest : public testing::Test {
 protected:
  static constexpr int32_t kRel32 = 4, kNext = 16, kFar = 64, kBack = 128;

  BranchSiteTest()
      : code_(static_cast<uint8_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    std::memset(code_, 0xcc, 4096);
    Put(kNext, {0xb8, 1, 0, 0, 0, 0xc3});  // mov $1,%eax; ret
    Put(kFar, {0xb8, 2, 0, 0, 0, 0xc3});
    Put(kBack, {0xb8, 3, 0, 0, 0, 0xc3});
  }
  ~BranchSiteTest() override { munmap(code_, 4096); }

  void Put(int32_t at, std::initializer_list<uint8_t> bytes) {
    std::memcpy(code_ + at, bytes.begin(), bytes.size());
  }
  void Lead(int32_t from, int32_t to) { SetBranch(code_ + from, to - from - 4); }
  int Run(int32_t at) const {
    return reinterpret_cast<int (*)()>(reinterpret_cast<uintptr_t>(code_ + at))();
  }

  uint8_t* const code_;
};

TEST_F(BranchSiteTest, AJumpLeadsWhereItIsSetTo) {
  Put(kRel32 - 2, {kJumpPrefix, kJumpOpcode});
  for (const auto& [to, result] : {std::pair(kFar, 2), {kBack, 3}, {kFar, 2}}) {
    Lead(kRel32, to);
    EXPECT_EQ(Run(kRel32 - 2), result);
    EXPECT_EQ(code_[kRel32 - 1], kJumpOpcode);
  }
}

TEST_F(BranchSiteTest, AJumpToWhatFollowsIsNoneUntilItLeadsElsewhere) {
  for (int32_t padding = 0; padding <= 7; ++padding) {
    const int32_t rel32 = kNext - padding - 4;
    std::memset(code_, 0xcc, kNext);
    Put(rel32 - 2, {kJumpPrefix, kJumpOpcode});
    for (int i = 0; i < 2; ++i) {
      Lead(rel32, kNext);
      EXPECT_EQ(Run(rel32 - 2), 1);
      EXPECT_EQ(code_[rel32 - 1], kFallThroughOpcode);
      Lead(rel32, kFar);
      EXPECT_EQ(Run(rel32 - 2), 2);
    }
  }
}

TEST_F(BranchSiteTest, OverCodeItJumps) {
  Put(kRel32 - 2, {kJumpPrefix, kJumpOpcode});
  Put(kRel32 + 4, {0x90, 0xb0});  // no padding
  Lead(kRel32, kRel32 + 4 + 6);
  EXPECT_EQ(code_[kRel32 - 1], kJumpOpcode);
  EXPECT_EQ(code_[kRel32 + 5], 0xb0);
}

TEST_F(BranchSiteTest, AConditionalJumpStaysOne) {
  Put(kRel32 - 4, {0x31, 0xc0, 0x0f, 0x84});  // xor %eax,%eax; jz
  const int32_t next = kRel32 + 4;
  Put(next, {0xb8, 4, 0, 0, 0, 0xc3});
  Lead(kRel32, next);
  EXPECT_EQ(Run(kRel32 - 4), 4);
  Lead(kRel32, kFar);
  EXPECT_EQ(Run(kRel32 - 4), 2);
  EXPECT_EQ(code_[kRel32 - 1], 0x84);
}

}  // namespace
}  // namespace hindsight
