#include "recorder/emulate/sync/thread_memory.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <optional>
#include <utility>

#include "recorder/emulate/pager/process_pager_fixture.h"

namespace hindsight {
namespace {

class FakeWriters final : public StoresOfOthers {
 public:
  bool WrittenElsewhere() override { return false; }
  std::vector<MemoryRange> TakeWritten() override { return std::exchange(written, {}); }
  void ShareEffects(const SyscallOutputs& effects) override { shared.push_back(effects); }
  bool TrustsOutputs() override { return trusts; }
  void StopTrustingOutputs() override { trusts = false; }
  bool UntrackedWrites() override { return untracked; }
  void NoteUntrackedWrites() override { untracked = true; }

  std::vector<MemoryRange> written;
  std::vector<SyscallOutputs> shared;
  bool trusts = true;
  bool untracked = false;
};

// The first page of the stack is held; what is poked there the view does not show by itself.
class ThreadMemoryTest : public ProcessPagerTest {
 protected:
  static constexpr auto kOutputs = ProcessPager::Compare::kOutputs;

  void SetUp() override {
    ProcessPagerTest::SetUp();
    memory_.emplace(tracee_.get(), pager_.get(), &words_, &writers_, /*seed=*/1);
    place_ = stack_ + 8;
    Store(place_, 1);
    ASSERT_TRUE(pager_->WriteBack());
    PokeProcess(place_, 2);
  }

  uint8_t InView() {
    uint8_t byte = 0;
    EXPECT_TRUE(cpu_->ReadHeld(place_, absl::MakeSpan(&byte, 1)));
    return byte;
  }
  static CallInFlight Call(int64_t number) {
    RegisterFile registers;
    registers.gpr[kRax] = static_cast<uint64_t>(number);
    return CallInFlight(registers);
  }

  KernelWords words_;
  FakeWriters writers_;
  std::optional<ThreadMemory> memory_;
  uint64_t place_ = 0;
};

TEST_F(ThreadMemoryTest, WithNoEffectsNamedPagesInUseKeepTheirContents) {
  memory_->Resync({}, kOutputs);
  EXPECT_EQ(InView(), 1);
  memory_->Resync({});
  EXPECT_EQ(InView(), 2);
}

TEST_F(ThreadMemoryTest, EffectsAreTakenAndShared) {
  memory_->Resync({.written = {{place_, 1}}}, kOutputs);
  EXPECT_EQ(InView(), 2);
  ASSERT_EQ(writers_.shared.size(), 1u);
  EXPECT_EQ(writers_.shared[0].written, (std::vector<MemoryRange>{{place_, 1}}));
}

TEST_F(ThreadMemoryTest, WhatTheKernelStoredForOthersIsTaken) {
  writers_.written = {{place_, 1}};
  memory_->Resync({}, kOutputs);
  EXPECT_EQ(InView(), 2);
}

TEST_F(ThreadMemoryTest, RseqIsTakenWhenTheThreadHasRun) {
  words_.set_rseq(place_);
  memory_->ResyncRseq();
  EXPECT_EQ(InView(), 2);
  PokeProcess(place_, 3);
  memory_->Resync({}, kOutputs);
  EXPECT_EQ(InView(), 3);
}

TEST_F(ThreadMemoryTest, AfterUnknownWritesEverythingIsCompared) {
  memory_->NoteUnknownWrites();
  memory_->Resync({}, kOutputs);
  EXPECT_EQ(InView(), 2);
  PokeProcess(place_, 3);
  memory_->Resync({}, kOutputs);
  EXPECT_EQ(InView(), 2);  // once
}

TEST_F(ThreadMemoryTest, TurnBeginsWithTheChangesOfOthers) {
  memory_->TakeChanges(/*call_returned=*/false);
  EXPECT_EQ(InView(), 2);
}

TEST_F(ThreadMemoryTest, ChangesWaitUntilTheCallIsLogged) {
  writers_.written = {{place_, 1}};
  memory_->TakeChanges(/*call_returned=*/true);
  EXPECT_EQ(InView(), 1);
  EXPECT_EQ(writers_.written.size(), 1u);
  memory_->Resync({}, kOutputs);
  EXPECT_EQ(InView(), 2);
}

TEST_F(ThreadMemoryTest, OutputsAreNotTrustedAfterACallThatIsNotKnown) {
  EXPECT_TRUE(memory_->ResyncAfterCall(Call(SYS_getpid), {.written = {{place_, 1}}}));
  EXPECT_TRUE(writers_.trusts);
  memory_->ResyncAfterCall(Call(SYS_getpid), {.known = false});
  EXPECT_FALSE(writers_.trusts);
  EXPECT_EQ(InView(), 2);
}

TEST_F(ThreadMemoryTest, AmongFewPagesAChangeThatNoCallNamesIsFound) {
  EXPECT_FALSE(memory_->ResyncAfterCall(Call(SYS_getpid), {.known = true}));
  EXPECT_FALSE(writers_.trusts);
  EXPECT_EQ(InView(), 2);
}

TEST_F(ThreadMemoryTest, OutputsAreTrustedAfterAStepThatIsKnown) {
  RegisterFile registers;
  ASSERT_TRUE(tracee_->GetRegisters(true, &registers));
  memory_->ResyncAfterStep(registers);
  EXPECT_TRUE(writers_.trusts);
  EXPECT_FALSE(writers_.untracked);
}

TEST_F(ThreadMemoryTest, StepOfAnInstructionThatCannotBeReadMayHaveDoneAnything) {
  memory_->ResyncAfterStep(RegisterFile());
  EXPECT_FALSE(writers_.trusts);
  EXPECT_TRUE(writers_.untracked);
  EXPECT_EQ(InView(), 2);
}

}  // namespace
}  // namespace hindsight
