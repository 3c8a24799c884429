// ProcessPager: which pages in use are compared after a call that is known, where nobody else can
// have written.

#include <vector>

#include "gtest/gtest.h"
#include "recorder/emulate/pager/process_pager.h"
#include "recorder/emulate/pager/process_pager_fixture.h"

namespace hindsight {
namespace {

using Compare = ProcessPager::Compare;
using ProcessPagerCompareTest = ProcessPagerTest;

TEST_F(ProcessPagerCompareTest, OfPagesInUseThoseTheCallStoresToAreCompared) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  PokeProcess(stack_ + 130, InProcess(stack_ + 130) + 1);
  EXPECT_TRUE(pager_->Resync({.written = {{stack_ - 100, 100}}}, Compare::kOutputs));
  EXPECT_NE(cpu_->HostPage(stack_)[130], InProcess(stack_ + 130));
  EXPECT_TRUE(pager_->Resync({.written = {{stack_ + 130, 1}}}, Compare::kOutputs));
  EXPECT_EQ(cpu_->HostPage(stack_)[130], InProcess(stack_ + 130));
  PokeProcess(stack_ + 130, InProcess(stack_ + 130) + 1);
  EXPECT_TRUE(pager_->Resync({.perhaps_written = {{stack_, 8}}}, Compare::kOutputs));
  EXPECT_EQ(cpu_->HostPage(stack_)[130], InProcess(stack_ + 130));
  PokeProcess(stack_ + 130, InProcess(stack_ + 130) + 1);
  EXPECT_TRUE(pager_->Resync({.unfilled = {{stack_, 8}}}, Compare::kOutputs));
  EXPECT_EQ(cpu_->HostPage(stack_)[130], InProcess(stack_ + 130));
}

TEST_F(ProcessPagerCompareTest, PagesThatAreNotComparedStayInUse) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  for (int i = 0; i < 200; ++i) pager_->Resync({}, Compare::kOutputs);
  EXPECT_EQ(cpu_->rights(stack_), PageRights::kRead);
}

TEST_F(ProcessPagerCompareTest, AProbeFindsWhatTheCallDidNotTell) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  EXPECT_TRUE(pager_->Resync({}, Compare::kProbe));
  PokeProcess(stack_ + 64, InProcess(stack_ + 64) + 1);
  EXPECT_TRUE(pager_->Resync({.written = {{stack_ + 64, 1}}}, Compare::kProbe));
  PokeProcess(stack_ + 64, InProcess(stack_ + 64) + 1);
  EXPECT_FALSE(pager_->Resync({}, Compare::kProbe));
  EXPECT_EQ(cpu_->HostPage(stack_)[64], InProcess(stack_ + 64));
}

TEST_F(ProcessPagerCompareTest, AProbeThatFindsSomethingLooksAtUnusedPagesToo) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  Idle();
  PokeProcess(stack_ + 64, InProcess(stack_ + 64) + 1);
  // Not in use, and no effects name it.
  EXPECT_TRUE(pager_->Resync({}, Compare::kProbe));
  EXPECT_EQ(writer_.Imports().size(), 1u);
  const uint64_t other = stack_ + kPageBytes;
  ASSERT_TRUE(pager_->OnMissing(other, Access::kRead));
  PokeProcess(other, InProcess(other) + 1);
  EXPECT_FALSE(pager_->Resync({}, Compare::kProbe));
  EXPECT_EQ(cpu_->HostPage(stack_)[64], InProcess(stack_ + 64));
}

TEST_F(ProcessPagerCompareTest, MemoryInAnothersPlaceIsLookedAtWhenItIsUsed) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  PokeProcess(stack_, InProcess(stack_) + 1);
  pager_->Resync({.remapped = {{stack_, kPageBytes}}}, Compare::kOutputs);
  EXPECT_EQ(cpu_->rights(stack_), PageRights::kNone);
  EXPECT_EQ(writer_.Imports().size(), 2u);
}

TEST_F(ProcessPagerCompareTest, DiscardedPagesAreComparedUntilTheyAreWritten) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  pager_->Resync({.discarded = {{stack_, kPageBytes}}}, Compare::kOutputs);
  PokeProcess(stack_, InProcess(stack_) + 1);
  pager_->Resync({}, Compare::kOutputs);
  EXPECT_EQ(cpu_->HostPage(stack_)[0], InProcess(stack_));
  Store(stack_, 1);
  ASSERT_TRUE(pager_->WriteBack());
  PokeProcess(stack_, 2);
  pager_->Resync({}, Compare::kOutputs);
  EXPECT_EQ(cpu_->HostPage(stack_)[0], 1);
}

TEST_F(ProcessPagerCompareTest, SharedPagesAreAlwaysCompared) {
  std::vector<MapRegion> regions = pager_->space().map().regions();
  for (MapRegion& region : regions) region.shared = region.name == "[stack]";
  SetMap(MemoryMap(regions));
  Store(stack_, 1);
  ASSERT_TRUE(pager_->WriteBack());
  PokeProcess(stack_, 2);
  pager_->Resync({}, Compare::kOutputs);
  EXPECT_EQ(cpu_->HostPage(stack_)[0], 2);
}

// Also once they are copied: a file that is truncated takes them along.
TEST_F(ProcessPagerCompareTest, PagesOfFilesAreAlwaysCompared) {
  std::vector<MapRegion> regions = pager_->space().map().regions();
  for (MapRegion& region : regions) {
    if (region.name == "[stack]") region.inode = 7;
  }
  SetMap(MemoryMap(regions));
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  PokeProcess(stack_, InProcess(stack_) + 1);
  pager_->Resync({}, Compare::kOutputs);
  EXPECT_EQ(cpu_->HostPage(stack_)[0], InProcess(stack_));
  Store(stack_, 1);
  ASSERT_TRUE(pager_->WriteBack());
  PokeProcess(stack_, 2);
  pager_->Resync({}, Compare::kOutputs);
  EXPECT_EQ(cpu_->HostPage(stack_)[0], 2);
}

}  // namespace
}  // namespace hindsight
