// Registers go to the engine and come back the same, however few of them are transferred.

#include "emulator/unicorn/unicorn_engine.h"

#include <unicorn/unicorn.h>

#include <cstdint>
#include <memory>

#include "emulator/checks/random_state.h"
#include "emulator/view/view.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

class NoClient final : public EngineClient {
 public:
  void OnMemory(bool write, uint64_t address, uint32_t size, uint64_t value) override {}
  bool OnNewChunk(bool write, uint64_t address) override { return true; }
};

void StopAtOnce(uc_engine* uc, uint64_t address, uint32_t size, void* client) { uc_emu_stop(uc); }

class UnicornEngineTest : public ::testing::Test {
 protected:
  std::unique_ptr<UnicornEngine> Engine() {
    return *UnicornEngine::Create(&view_, &client_, StopAtOnce, /*watch=*/false);
  }
  // What an engine that has never held anything else makes of them.
  RegisterFile AsTransferredWhole(const RegisterFile& registers) {
    RegisterFile back;
    const std::unique_ptr<UnicornEngine> engine = Engine();
    engine->Store(registers);
    engine->Load(&back);
    return back;
  }
  // `registers` with a few of them another's.
  RegisterFile WithSomeOf(RegisterFile registers, const RegisterFile& other) {
    if (random_.Below(2) != 0) registers.gpr[random_.Below(16)] = other.gpr[3];
    if (random_.Below(2) != 0) registers.xmm[random_.Below(16)][1] = other.xmm[3][0];
    if (random_.Below(2) != 0) registers.rflags = other.rflags;
    if (random_.Below(4) == 0) registers.mxcsr = other.mxcsr;
    if (random_.Below(4) == 0) registers.fcw = other.fcw;
    if (random_.Below(4) == 0) registers.fsw = other.fsw;
    if (random_.Below(4) == 0) registers.st[random_.Below(8)][0] = other.st[2][0];
    if (random_.Below(4) == 0) registers.ftw = random_.Below(256);
    if (random_.Below(4) == 0) registers.fs_base = other.gpr[4] >> 20;
    if (random_.Below(4) == 0) registers.gs_base = other.gpr[5] >> 20;
    return registers;
  }

  View view_;
  NoClient client_;
  RandomState random_{1};
};

TEST_F(UnicornEngineTest, ChangesAloneLeaveWhatAWholeTransferLeaves) {
  const std::unique_ptr<UnicornEngine> engine = Engine();
  engine->Store(random_.Registers());
  RegisterFile now;
  engine->Load(&now);
  for (int i = 0; i < 300; ++i) {
    const RegisterFile next = WithSomeOf(now, random_.Registers());
    engine->Store(next);
    engine->Load(&now);
    ASSERT_TRUE(now == AsTransferredWhole(next)) << i;
  }
}

TEST_F(UnicornEngineTest, WhatTheProgramChangedIsLoaded) {
  const std::unique_ptr<UnicornEngine> engine = Engine();
  const RegisterFile registers = random_.Registers();
  engine->Store(registers);
  RegisterFile now;
  engine->Load(&now);
  // A program of one block that is not executed leaves everything.
  constexpr uint64_t kCode = 0x10000;
  view_.SetRights(kCode, PageRights::kRead);
  EXPECT_EQ(engine->Start(kCode), UnicornEngine::Exit::kStopped);
  RegisterFile after;
  engine->Load(&after);
  EXPECT_TRUE(after == now);
  // What a context brings back counts as well.
  engine->SaveContext();
  engine->Store(random_.Registers());
  engine->Load(&after);
  EXPECT_FALSE(after == now);
  engine->RestoreContext();
  engine->Load(&after);
  EXPECT_TRUE(after == now);
}

}  // namespace
}  // namespace hindsight
