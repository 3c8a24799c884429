#include "emulator/code/translated_code.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

namespace hindsight {
namespace {

constexpr uint64_t kPage = 0x7000'0000;
constexpr uint64_t kAllLines = ~uint64_t{0};

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

class TranslatedCodeTest : public testing::Test, public TranslationDropper {
 protected:
  void SetUp() override {
    std::memset(view_.HostPage(kPage), 0x90, kPageBytes);  // nop
    view_.SetRights(kPage, PageRights::kReadWrite);
  }
  void DropTranslations(uint64_t begin, uint64_t end) override {
    dropped_.push_back({begin - kPage, end - kPage});
  }
  void Unmap(uint64_t base) override { unmapped_.push_back(base); }

  Block* Validate(uint64_t offset, uint32_t size) {
    return code_.Validate(kPage + offset, size, [](uint64_t) { return true; });
  }
  void Write(uint64_t offset, uint8_t byte) {
    if (view_.is_code(kPage)) code_.NoteWrite(kPage, 0, /*own=*/false);
    view_.HostPage(kPage)[offset] = byte;
  }

  View view_;
  TranslatedCode code_{&view_, this};
  Ranges dropped_;
  std::vector<uint64_t> unmapped_;
};

TEST_F(TranslatedCodeTest, ATranslatedPageIsCode) {
  EXPECT_FALSE(code_.HasCode(kPage));
  const Block* const block = Validate(0, 4);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->instructions, 4u);
  EXPECT_EQ(block->epoch, code_.epoch());
  EXPECT_TRUE(view_.is_code(kPage));
}

TEST_F(TranslatedCodeTest, SettlingDropsWhatWasMadeOfBytesThatChanged) {
  Validate(0, 4);
  Validate(0x800, 4);
  const uint64_t version = code_.version();
  Write(0x801, 0xc3);
  EXPECT_FALSE(code_.IsSettled(kPage));
  code_.Settle(kPage, 0);
  EXPECT_TRUE(code_.IsSettled(kPage));
  EXPECT_EQ(dropped_, Ranges({{0x800, 0x802}}));
  EXPECT_GT(code_.version(), version);
  EXPECT_NE(code_.blocks().Find(kPage, 4), nullptr);
  EXPECT_EQ(code_.blocks().Find(kPage + 0x800, 4), nullptr);
}

TEST_F(TranslatedCodeTest, AWriteThatChangesNoCodeDropsNothing) {
  Validate(0, 4);
  const uint64_t version = code_.version();
  Write(0, 0x90);
  code_.Settle(kPage, 0);
  EXPECT_EQ(dropped_, Ranges());
  EXPECT_EQ(code_.version(), version);
}

TEST_F(TranslatedCodeTest, WhatIsTranslatedFromAWrittenPageIsLookedAtLater) {
  Validate(0, 4);
  Write(0, 0xc3);
  EXPECT_EQ(Validate(0, 4), nullptr);
  ASSERT_TRUE(code_.has_pending());
  code_.ApplyPending(0);
  EXPECT_FALSE(code_.has_pending());
  EXPECT_TRUE(code_.IsSettled(kPage));
  EXPECT_NE(Validate(0, 1), nullptr);
}

TEST_F(TranslatedCodeTest, RightsThatCodeLosesRaiseTheEpoch) {
  const uint32_t before = code_.epoch();
  code_.SetRights(kPage, PageRights::kNone);
  EXPECT_EQ(code_.epoch(), before);
  code_.SetRights(kPage, PageRights::kRead);
  Validate(0, 4);
  code_.DropRights({kPage});
  EXPECT_GT(code_.epoch(), before);
}

TEST_F(TranslatedCodeTest, ChangedLinesAreDroppedInRuns) {
  Validate(0, 4);
  code_.DropLines(kPage, 0b1011);
  EXPECT_EQ(dropped_, Ranges({{0, 2 * kLineBytes}, {3 * kLineBytes - 1, 4 * kLineBytes}}));
  dropped_.clear();
  code_.DropLines(kPage, kAllLines);
  EXPECT_EQ(dropped_, Ranges({{0, kPageBytes}}));
  EXPECT_FALSE(code_.HasCode(kPage));
}

TEST_F(TranslatedCodeTest, DecodedInstructionsAreKnownUntilCodeChanges) {
  Validate(0, 4);
  Instruction instruction;
  instruction.length = 1;
  code_.Remember(kPage, instruction);
  ASSERT_NE(code_.Known(kPage), nullptr);
  EXPECT_EQ(code_.Known(kPage)->length, 1);
  EXPECT_EQ(code_.Known(kPage + 1), nullptr);
  code_.DropLines(kPage, 1);
  EXPECT_EQ(code_.Known(kPage), nullptr);
}

TEST_F(TranslatedCodeTest, BlocksWithNewBreakpointsAreForgotten) {
  Validate(0, 4);
  Validate(8, 4);
  code_.SetBreakpoints({kPage + 9});
  EXPECT_NE(code_.blocks().Find(kPage, 4), nullptr);
  EXPECT_EQ(code_.blocks().Find(kPage + 8, 4), nullptr);
  const Block* const block = Validate(8, 4);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->breakpoints, 1u);
}

TEST_F(TranslatedCodeTest, AReleasedChunkIsUnmapped) {
  Validate(0, 4);
  code_.Release({kPage});
  EXPECT_FALSE(code_.HasCode(kPage));
  const uint64_t chunk = kPage & ~(View::kChunkBytes - 1);
  code_.ReleaseChunk(chunk);
  EXPECT_EQ(unmapped_, std::vector<uint64_t>({chunk}));
  EXPECT_EQ(view_.Find(kPage), nullptr);
}

}  // namespace
}  // namespace hindsight
