#include "emulator/cpu/entry_checks.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "emulator/view/view.h"

namespace hindsight {
namespace {

class Client final : public EngineClient {
 public:
  void OnMemory(bool, uint64_t, uint32_t, uint64_t) override {}
  bool OnNewChunk(bool, uint64_t) override { return false; }
};

void NoHook(uc_engine*, uint64_t, uint32_t, void*) {}

class EntryChecksTest : public testing::Test {
 protected:
  void SetUp() override {
    auto engine = UnicornEngine::Create(&view_, &client_, NoHook, /*watch=*/false);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    registers_.mxcsr = 0x1f80;
    registers_.fcw = 0x37f;
    registers_.ftw = 0xff;
  }
  bool Passes(const Block& block, bool again = false) {
    engine_->Store(registers_);
    return PassesEntryChecks(block, again, engine_.get());
  }

  View view_;
  Client client_;
  std::unique_ptr<UnicornEngine> engine_;
  RegisterFile registers_;
};

TEST_F(EntryChecksTest, MisalignedOperandsFail) {
  Block block;
  block.flags = Block::kAligned;
  AlignmentCheck check;  // rdi + 2 * rsi + 8
  check.terms = {{{kRdi, 1}, {kRsi, 2}, {}}};
  check.term_count = 2;
  check.constant = 8;
  block.alignment = {check};
  ASSERT_TRUE(HasEntryChecks(block));
  registers_.gpr[kRdi] = 0x1000;
  registers_.gpr[kRsi] = 4;
  EXPECT_TRUE(Passes(block));
  registers_.gpr[kRsi] = 5;
  EXPECT_FALSE(Passes(block));
  EXPECT_FALSE(Passes(block, /*again=*/true));
  block.flags |= Block::kKept;
  EXPECT_TRUE(Passes(block, /*again=*/true));
}

TEST_F(EntryChecksTest, UpperHalvesMustBeZeroUnlessTheOperandIsNot) {
  Block block;
  block.flags = Block::kUpperHalf;
  block.upper_halves = {{.upper = kRax, .lower = kRcx}};
  registers_.gpr[kRax] = uint64_t{1} << 32;
  EXPECT_FALSE(Passes(block));
  registers_.gpr[kRcx] = 1;
  EXPECT_TRUE(Passes(block));
  registers_.gpr[kRcx] = uint64_t{1} << 32;
  EXPECT_FALSE(Passes(block));
  registers_.gpr[kRax] = 1;
  EXPECT_TRUE(Passes(block));
}

TEST_F(EntryChecksTest, X87RegistersMustNotBeEmpty) {
  Block block;
  block.flags = Block::kX87Stack;
  block.x87_needed = 0b11;
  EXPECT_TRUE(Passes(block));
  registers_.fsw = 3 << 11;
  registers_.ftw = 0b0001'1000;  // physical 3 and 4: st(0) and st(1)
  EXPECT_TRUE(Passes(block));
  registers_.ftw = 0b0000'0011;
  EXPECT_FALSE(Passes(block));
}

TEST_F(EntryChecksTest, FcmovReadsEmptyRegisters) {
  const std::vector<uint8_t> code = {0xda, 0xc1};  // fcmovb st(0),st(1)
  EXPECT_FALSE(ReadsEmptyRegister(code, registers_));
  registers_.ftw = 0b0001;
  EXPECT_TRUE(ReadsEmptyRegister(code, registers_));
}

}  // namespace
}  // namespace hindsight
