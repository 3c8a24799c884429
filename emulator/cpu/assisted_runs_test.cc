#include "emulator/cpu/assisted_runs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x555555554000;

class AssistedRunsTest : public testing::Test, public TranslationDropper {
 protected:
  void SetUp() override { view_.SetRights(kCode, PageRights::kRead); }
  void Code(std::vector<uint8_t> bytes) {
    std::memcpy(view_.HostPage(kCode), bytes.data(), bytes.size());
    view_.SetCode(kCode, true);
  }
  void DropTranslations(uint64_t, uint64_t) override {}
  void Unmap(uint64_t) override {}

  const AssistedRuns::Run& Find() {
    return runs_.Find(kCode, MemoryModel::kFence, [this](uint64_t pc) {
      ++decoded_;
      instruction_ =
          Classify(absl::MakeConstSpan(view_.HostPage(PageOf(pc)) + pc % kPageBytes, 15));
      return instruction_.length == 0 ? nullptr : &instruction_;
    });
  }

  View view_;
  TranslatedCode code_{&view_, this};
  AssistedRuns runs_{&view_, &code_};
  Instruction instruction_;
  int decoded_ = 0;
};

// mov rax, rcx; popcnt rax, rcx; jmp
const std::vector<uint8_t> kBridgeAssistJump = {0x48, 0x89, 0xc8, 0xf3, 0x48,
                                                0x0f, 0xb8, 0xc1, 0xeb, 0x10};

TEST_F(AssistedRunsTest, ARunEndsWithAJump) {
  Code(kBridgeAssistJump);
  const AssistedRuns::Run& run = Find();
  EXPECT_EQ(run.steps.size(), 3u);
  EXPECT_TRUE(run.assisted);
}

TEST_F(AssistedRunsTest, ARunEndsBeforeAnInstructionForUnicorn) {
  Code({0x48, 0x89, 0xc8, 0x0f, 0x05});  // mov rax, rcx; syscall
  EXPECT_EQ(Find().steps.size(), 1u);
  EXPECT_FALSE(Find().assisted);
}

TEST_F(AssistedRunsTest, ARunIsBuiltOnceUntilCodeChanges) {
  Code(kBridgeAssistJump);
  Find();
  const int decoded = decoded_;
  Find();
  EXPECT_EQ(decoded_, decoded);
  code_.DropLines(kCode, 1);
  view_.SetCode(kCode, true);
  Find();
  EXPECT_GT(decoded_, decoded);
}

TEST_F(AssistedRunsTest, ARunEndsBeforeABreakpoint) {
  Code(kBridgeAssistJump);
  EXPECT_EQ(Find().steps.size(), 3u);
  code_.SetBreakpoints({kCode + 3});
  runs_.Invalidate();
  EXPECT_EQ(Find().steps.size(), 1u);
}

TEST_F(AssistedRunsTest, UnmaskedExceptionsHaveFloatingPointAssisted) {
  RegisterFile registers;
  registers.mxcsr = 0x1f80;
  registers.fcw = 0x37f;
  runs_.NoteFloatControl(registers);
  EXPECT_FALSE(runs_.floats_outside());
  const Instruction addps = Classify(std::vector<uint8_t>{0x0f, 0x58, 0xc1});
  EXPECT_FALSE(runs_.MustAssist(addps));
  registers.mxcsr = 0;
  runs_.NoteFloatControl(registers);
  EXPECT_TRUE(runs_.MustAssist(addps));
}

TEST_F(AssistedRunsTest, BridgesCanBeLeftToUnicorn) {
  const Instruction mov = Classify(std::vector<uint8_t>{0x48, 0x89, 0xc8});
  EXPECT_TRUE(runs_.MayBridge(mov));
  runs_.DisableBridges();
  EXPECT_FALSE(runs_.MayBridge(mov));
}

}  // namespace
}  // namespace hindsight
