#include "emulator/code/code_pages.h"

#include <gtest/gtest.h>

#include <vector>

namespace hindsight {
namespace {

using State = CodePages::State;
using Ranges = std::vector<CodePages::Range>;
constexpr uint64_t kPage = 0x401000;
// So much later that nothing of before counts as often.
constexpr uint64_t kLong = 1'000'000;

class CodePagesTest : public testing::Test {
 protected:
  // The program writes, without or with changing something.
  void Write(bool own = false) { pages_.NoteWrite(kPage, bytes_.data(), work_, own); }
  Ranges Settle(bool needed = false) {
    Ranges changes = pages_.Changes(kPage, bytes_.data());
    pages_.Settle(kPage, bytes_.data(), work_, needed);
    return changes;
  }
  State state() const { return pages_.state(kPage); }
  // Writing and executing, quickly, until the page is mixed. How many turns that took.
  int TurnUntilMixed() {
    int turns = 0;
    while (state() == State::kSettled && turns < 100'000) {
      Write();
      Settle();
      ++turns;
    }
    EXPECT_EQ(state(), State::kMixed);
    return turns;
  }

  CodePages pages_;
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(kPageBytes, 0x90);
  uint64_t work_ = kLong;
};

TEST_F(CodePagesTest, ReportsWhichBytesChanged) {
  EXPECT_EQ(state(), State::kSettled);
  Write();
  EXPECT_EQ(state(), State::kWritten);
  bytes_[0] = 1;
  bytes_[100] = bytes_[117] = 1;
  bytes_[kPageBytes - 1] = 1;
  EXPECT_EQ(Settle(), (Ranges{{kPage, kPage + 1},
                              {kPage + 100, kPage + 118},
                              {kPage + kPageBytes - 1, kPage + kPageBytes}}));
  EXPECT_EQ(state(), State::kSettled);
  EXPECT_TRUE(Settle().empty());
}

TEST_F(CodePagesTest, WritingWhatIsThereChangesNothing) {
  Write();
  EXPECT_TRUE(Settle().empty());
  EXPECT_EQ(state(), State::kSettled);
}

TEST_F(CodePagesTest, ComparesWithWhatWasTranslatedOnly) {
  EXPECT_TRUE(pages_.Unchanged(kPage, 10, bytes_.data()));
  Write();
  bytes_[5] = 1;
  EXPECT_TRUE(pages_.Unchanged(kPage, 5, bytes_.data()));
  EXPECT_FALSE(pages_.Unchanged(kPage, 6, bytes_.data()));
  EXPECT_TRUE(pages_.Unchanged(kPage + 6, 6, bytes_.data()));
}

TEST_F(CodePagesTest, RareTurnsAreJustTurns) {
  for (int i = 0; i < 1000; ++i) {
    work_ += kLong;
    Write();
    Settle();
    ASSERT_EQ(state(), State::kSettled);
  }
}

TEST_F(CodePagesTest, TurnsThatWereNeededAreJustTurns) {
  for (int i = 0; i < 1000; ++i) {
    Write();
    Settle(/*needed=*/true);
    ASSERT_EQ(state(), State::kSettled);
  }
}

TEST_F(CodePagesTest, QuickTurnsInVainMakeAPageMixed) {
  TurnUntilMixed();
  for (int i = 0; i < 1000; ++i) {
    bytes_[7] = static_cast<uint8_t>(i);
    ASSERT_EQ(Settle(), (i % 256 == 0x90 ? Ranges{} : Ranges{{kPage + 7, kPage + 8}})) << i;
    ASSERT_TRUE(Settle().empty());
    bytes_[7] = 0x90;
    Settle();
    ASSERT_EQ(state(), State::kMixed);
  }
}

TEST_F(CodePagesTest, SteppingMuchSettlesAPageAndMakesItHarderToMix) {
  const int first = TurnUntilMixed();
  for (int i = 0; i < 1000; ++i) pages_.NoteStep(kPage);
  bytes_[9] = 1;
  EXPECT_EQ(Settle(), (Ranges{{kPage + 9, kPage + 10}}));
  EXPECT_EQ(state(), State::kSettled);
  EXPECT_GT(TurnUntilMixed(), first);
}

TEST_F(CodePagesTest, WritingToItselfMixesAtOnceAndForLonger) {
  uint64_t steps[2] = {};
  for (uint64_t& step : steps) {
    Write(/*own=*/true);
    EXPECT_EQ(state(), State::kMixed);
    while (state() == State::kMixed && step < 100'000) {
      pages_.NoteStep(kPage);
      ++step;
      Settle();
    }
  }
  EXPECT_GT(steps[1], steps[0]);
}

TEST_F(CodePagesTest, NothingIsLeftToCompareWhenAllWasDropped) {
  Write();
  bytes_[5] = 1;
  pages_.NoteDropped(kPage, bytes_.data());
  EXPECT_EQ(state(), State::kSettled);
  TurnUntilMixed();
  bytes_[5] = 2;
  pages_.NoteDropped(kPage, bytes_.data());
  EXPECT_EQ(state(), State::kMixed);
  EXPECT_TRUE(Settle().empty());
}

}  // namespace
}  // namespace hindsight
