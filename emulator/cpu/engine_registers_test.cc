#include "emulator/cpu/engine_registers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emulator/code/upper_half.h"

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x555555554000;

class EngineRegistersTest : public testing::Test, public EngineClient {
 protected:
  void SetUp() override {
    // inc rax; inc rax; xor eax, eax
    const std::vector<uint8_t> code = {0x48, 0xff, 0xc0, 0x48, 0xff, 0xc0, 0x31, 0xc0};
    std::memcpy(view_.HostPage(kCode), code.data(), code.size());
    view_.SetRights(kCode, PageRights::kRead);
    ASSERT_TRUE(registers_.Select(/*watch=*/false).ok());
    RegisterFile start;
    start.rip = kCode;
    start.rflags = 0x202;
    start.mxcsr = 0x1f80;
    start.fcw = 0x37f;
    registers_.Set(start);
  }
  void OnMemory(bool, uint64_t, uint32_t, uint64_t) override {}
  bool OnNewChunk(bool, uint64_t) override { return false; }
  static void Hook(uc_engine*, uint64_t, uint32_t, void*) {}
  uint64_t Rax() { return registers_.registers().gpr[kRax]; }
  bool Step() { return registers_.TrapStep(kNoGpr, faulted_); }

  View view_;
  EngineRegisters registers_{&view_, this, Hook};
  bool faulted_ = false;
};

TEST_F(EngineRegistersTest, AStepLeavesThemInTheEngine) {
  ASSERT_TRUE(Step());
  EXPECT_FALSE(registers_.engine_is_behind());
  EXPECT_EQ(registers_.pc(), kCode + 3);
  EXPECT_EQ(Rax(), 1u);
  EXPECT_EQ(registers_.registers().rflags & 0x100, 0u);  // no trap flag
}

TEST_F(EngineRegistersTest, ChangesOutsideReachTheEngineBeforeItRuns) {
  RegisterFile* const borrowed = registers_.Borrow();
  borrowed->gpr[kRax] = 41;
  borrowed->rip += 3;
  registers_.MarkChanged();
  EXPECT_TRUE(registers_.engine_is_behind());
  EXPECT_EQ(registers_.pc(), kCode + 3);
  ASSERT_TRUE(Step());
  EXPECT_EQ(Rax(), 42u);
}

TEST_F(EngineRegistersTest, AStepThatFaultsChangesNothing) {
  faulted_ = true;
  EXPECT_FALSE(Step());
  EXPECT_EQ(registers_.pc(), kCode);
  EXPECT_EQ(Rax(), 0u);
}

TEST_F(EngineRegistersTest, AKeptRegisterKeepsItsUpperHalfWhereZfIsSet) {
  RegisterFile* const borrowed = registers_.Borrow();
  borrowed->gpr[kRcx] = uint64_t{7} << 32;
  borrowed->rip = kCode + 6;
  registers_.MarkChanged();
  ASSERT_TRUE(registers_.TrapStep(kRcx, faulted_));  // sets ZF
  EXPECT_EQ(registers_.registers().gpr[kRcx], uint64_t{7} << 32);
}

TEST_F(EngineRegistersTest, TheyMoveToTheWatchingEngineAndBack) {
  ASSERT_TRUE(Step());
  UnicornEngine* const first = registers_.engine();
  ASSERT_TRUE(registers_.Select(/*watch=*/true).ok());
  EXPECT_NE(registers_.engine(), first);
  EXPECT_EQ(Rax(), 1u);
  ASSERT_TRUE(Step());
  ASSERT_TRUE(registers_.Select(/*watch=*/false).ok());
  EXPECT_EQ(registers_.engine(), first);
  EXPECT_EQ(Rax(), 2u);
  EXPECT_EQ(registers_.pc(), kCode + 6);
}

TEST_F(EngineRegistersTest, ANewEngineHasTheRegisters) {
  ASSERT_TRUE(Step());
  registers_.Renew();
  EXPECT_EQ(Rax(), 1u);
  ASSERT_TRUE(Step());
  EXPECT_EQ(Rax(), 2u);
}

}  // namespace
}  // namespace hindsight
