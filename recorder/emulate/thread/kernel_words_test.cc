#include "recorder/emulate/thread/kernel_words.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace hindsight {
namespace {

TEST(KernelWordsTest, NoneAtFirst) {
  const KernelWords words;
  EXPECT_FALSE(words.Rseq().has_value());
  EXPECT_FALSE(words.AtStart().has_value());
  EXPECT_TRUE(words.AtEnd().empty());
}

TEST(KernelWordsTest, CloneFlagsSayWhereTheIdIsStored) {
  KernelWords words;
  words.OnClone(0, 0x1000);
  EXPECT_FALSE(words.AtStart().has_value());
  words.OnClone(CLONE_CHILD_SETTID, 0x1000);
  EXPECT_EQ(words.AtStart(), (MemoryRange{0x1000, 4}));
  EXPECT_TRUE(words.AtEnd().empty());
  words.OnClone(CLONE_CHILD_CLEARTID, 0x2000);
  EXPECT_EQ(words.AtStart(), (MemoryRange{0x1000, 4}));
  EXPECT_EQ(words.AtEnd(), (std::vector<MemoryRange>{{0x2000, 4}}));
  words.set_tid_at_end(0);
  EXPECT_TRUE(words.AtEnd().empty());
}

TEST(KernelWordsTest, RobustMutexesFollowTheIdAtTheEnd) {
  KernelWords words;
  words.set_tid_at_end(0x3000);
  words.set_robust_mutexes({{0x4000, 4}, {0x5000, 4}});
  EXPECT_EQ(words.AtEnd(), (std::vector<MemoryRange>{{0x3000, 4}, {0x4000, 4}, {0x5000, 4}}));
}

TEST(KernelWordsTest, RseqIsTheWholeStructure) {
  KernelWords words;
  words.set_rseq(0x6000);
  EXPECT_EQ(words.Rseq(), (MemoryRange{0x6000, 32}));
  words.set_rseq(0);
  EXPECT_FALSE(words.Rseq().has_value());
}

}  // namespace
}  // namespace hindsight
