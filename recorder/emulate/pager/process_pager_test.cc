#include "recorder/emulate/pager/process_pager.h"

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/emulate/pager/process_pager_fixture.h"
#include "recorder/log/page_diff.h"

namespace hindsight {
namespace {

TEST_F(ProcessPagerTest, CodePageIsImportedByReference) {
  pager_->set_count(5);
  ASSERT_TRUE(pager_->OnMissing(code_, Access::kExecute));
  ASSERT_EQ(writer_.Imports().size(), 1u);
  const PageImport import = writer_.Imports()[0];
  EXPECT_EQ(writer_.records[0].count, 5u);
  EXPECT_TRUE(import.first);
  EXPECT_GE(import.module, 0);
  EXPECT_EQ(import.line_mask, 0u);
  EXPECT_EQ(cpu_->rights(code_), PageRights::kRead);
  EXPECT_TRUE(pager_->MayExecute(code_));
}

TEST_F(ProcessPagerTest, StackPageIsImportedByItsNonZeroLines) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  const PageImport import = writer_.Imports().at(0);
  EXPECT_EQ(import.module, -1);
  EXPECT_EQ(import.line_mask, NonZeroLines(cpu_->HostPage(stack_)));
}

TEST_F(ProcessPagerTest, RefusesWhatTheMapRefuses) {
  EXPECT_FALSE(pager_->OnMissing(0, Access::kRead));
  EXPECT_FALSE(pager_->OnMissing(code_, Access::kWrite));
  EXPECT_FALSE(pager_->OnMissing(stack_, Access::kExecute));
  EXPECT_FALSE(pager_->MayExecute(stack_));
  ASSERT_TRUE(pager_->OnMissing(code_, Access::kRead));
  EXPECT_FALSE(pager_->OnFirstWrite(code_));
  EXPECT_FALSE(pager_->OnMissing(0xffffffffff600000, Access::kExecute));
}

TEST_F(ProcessPagerTest, WritesReachTheProcessAtWriteBack) {
  const uint8_t before = InProcess(stack_);
  Store(stack_, before + 1);
  EXPECT_EQ(InProcess(stack_), before);
  ASSERT_TRUE(pager_->WriteBack());
  EXPECT_EQ(InProcess(stack_), static_cast<uint8_t>(before + 1));
}

TEST_F(ProcessPagerTest, RollbackTakesWritesBack) {
  const uint8_t before = InProcess(stack_);
  Store(stack_, before + 1);
  pager_->Rollback();
  EXPECT_EQ(*cpu_->HostPage(stack_), before);
  EXPECT_EQ(cpu_->rights(stack_), PageRights::kRead);
}

// What was translated from a page before it is rolled back must not be run after.
TEST_F(ProcessPagerTest, RolledBackCodeIsExecutedAsItIsAgain) {
  MemoryMap map = MemoryMap::OfProcess(tracee_->ProcPath("maps"));
  for (MapRegion& region : map.mutable_regions()) {
    if (region.start <= stack_ && stack_ < region.end) region.protection |= PROT_EXEC;
  }
  SetMap(std::move(map));
  const uint8_t code[] = {0xb8, 1, 0, 0, 0, 0x0f, 0x05};  // mov eax,1; syscall
  ASSERT_TRUE(tracee_->memory().Write(stack_, absl::MakeConstSpan(code)));
  auto run = [&] {
    RegisterFile registers;
    registers.rip = stack_;
    registers.rflags = 0x202;
    registers.mxcsr = 0x1f80;
    registers.fcw = 0x37f;
    cpu_->SetRegisters(registers);
    EXPECT_EQ(cpu_->Run({}).stop, Stop::kSpecial);
    return cpu_->registers().gpr[kRax];
  };
  EXPECT_EQ(run(), 1u);
  Store(stack_ + 1, 2);
  cpu_->ContentsChanged(stack_);
  EXPECT_EQ(run(), 2u);
  ASSERT_TRUE(pager_->Rollback());
  EXPECT_EQ(run(), 1u);
}

TEST_F(ProcessPagerTest, ResyncLogsOnlyChangedLines) {
  Store(stack_ + 64, 1);
  ASSERT_TRUE(pager_->WriteBack());
  pager_->set_count(10);
  pager_->Resync({});
  EXPECT_EQ(writer_.records.size(), 1u);  // the first import
  PokeProcess(stack_ + 130, InProcess(stack_ + 130) + 1);
  pager_->Resync({});
  if (cpu_->rights(stack_) == PageRights::kNone) pager_->OnMissing(stack_, Access::kRead);
  ASSERT_EQ(writer_.records.size(), 2u);
  const PageImport import = writer_.Imports()[1];
  EXPECT_FALSE(import.first);
  EXPECT_EQ(import.line_mask, 1u << 2);
  EXPECT_EQ(import.lines.size(), kLineBytes);
  EXPECT_EQ(cpu_->HostPage(stack_)[130], InProcess(stack_ + 130));
}

TEST_F(ProcessPagerTest, UnusedPagesAreDroppedInTheEnd) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  ASSERT_TRUE(pager_->OnMissing(code_, Access::kExecute));
  for (int i = 0; i < 10; ++i) pager_->Resync({});
  EXPECT_EQ(cpu_->rights(stack_), PageRights::kNone);
  EXPECT_EQ(cpu_->rights(code_), PageRights::kRead);  // cannot change
}

TEST_F(ProcessPagerTest, SegmentStartsKnowingNothing) {
  ASSERT_TRUE(pager_->OnMissing(code_, Access::kExecute));
  pager_->StartSegment();
  EXPECT_EQ(cpu_->rights(code_), PageRights::kNone);
  ASSERT_TRUE(pager_->OnMissing(code_, Access::kExecute));
  EXPECT_TRUE(writer_.Imports().at(1).first);
}

TEST_F(ProcessPagerTest, UnmappedPagesLoseTheirRights) {
  Store(stack_, 1);
  ASSERT_TRUE(pager_->OnMissing(code_, Access::kExecute));
  ASSERT_TRUE(pager_->WriteBack());
  std::vector<MapRegion> regions = pager_->space().map().regions();
  std::erase_if(regions,
                [this](const MapRegion& r) { return r.start <= stack_ && stack_ < r.end; });
  SetMap(MemoryMap(regions));
  EXPECT_EQ(cpu_->rights(stack_), PageRights::kNone);
  EXPECT_EQ(cpu_->rights(code_), PageRights::kRead);
  EXPECT_TRUE(pager_->WriteBack());
}

// Replay still has the old contents of a page that was unmapped and forgotten.
TEST_F(ProcessPagerTest, APageThatIsMappedAgainIsImportedWhole) {
  Store(stack_ + 8, 0x5a);
  ASSERT_TRUE(pager_->WriteBack());
  const MemoryMap map = pager_->space().map();
  std::vector<MapRegion> regions = map.regions();
  std::erase_if(regions,
                [this](const MapRegion& r) { return r.start <= stack_ && stack_ < r.end; });
  SetMap(MemoryMap(regions));
  EXPECT_EQ(cpu_->HostPage(stack_)[8], 0);
  SetMap(map);
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  const PageImport import = writer_.Imports().back();
  EXPECT_FALSE(import.first);
  EXPECT_EQ(import.line_mask, ~uint64_t{0});
  EXPECT_EQ(import.lines[8], 0x5a);
  EXPECT_EQ(cpu_->HostPage(stack_)[8], 0x5a);
}

TEST_F(ProcessPagerTest, CountsThePagesThatTheSegmentHasImported) {
  EXPECT_EQ(pager_->segment_pages(), 0u);
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  EXPECT_EQ(pager_->segment_pages(), 1u);
  pager_->StartSegment();
  EXPECT_EQ(pager_->segment_pages(), 0u);
}

TEST_F(ProcessPagerTest, PagesNotUsedForASegmentAreForgotten) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  pager_->StartSegment();
  pager_->StartSegment();
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  EXPECT_TRUE(writer_.Imports().back().first);
}

TEST_F(ProcessPagerTest, WhatLiesBetweenChangesIsWrittenIfNobodyElseStores) {
  pager_->NoteSiblings();
  Store(stack_ + 8, 0x55);
  Store(stack_ + 200, 0x56);
  PokeProcess(stack_ + 100, InProcess(stack_ + 100) + 1);  // which breaks the promise below
  PokeProcess(stack_ + 300, 0x77);
  const uint8_t between = cpu_->HostPage(stack_)[100];
  ASSERT_TRUE(pager_->WriteBack(/*others_store=*/false));
  EXPECT_EQ(InProcess(stack_ + 8), 0x55);
  EXPECT_EQ(InProcess(stack_ + 200), 0x56);
  EXPECT_EQ(InProcess(stack_ + 100), between);
  EXPECT_EQ(InProcess(stack_ + 300), 0x77);
}

TEST_F(ProcessPagerTest, OnlyChangedBytesAreWrittenIfOthersMayStore) {
  pager_->NoteSiblings();
  Store(stack_ + 8, 0x55);
  Store(stack_ + 10, 0x56);
  PokeProcess(stack_ + 9, 0x77);
  ASSERT_TRUE(pager_->WriteBack());
  EXPECT_EQ(InProcess(stack_ + 8), 0x55);
  EXPECT_EQ(InProcess(stack_ + 9), 0x77);
  EXPECT_EQ(InProcess(stack_ + 10), 0x56);
}

TEST_F(ProcessPagerTest, SharedPagesWriteBackOnlyWhatChanged) {
  std::vector<MapRegion> regions = pager_->space().map().regions();
  for (MapRegion& region : regions) region.shared = region.name == "[stack]";
  SetMap(MemoryMap(regions));
  Store(stack_ + 8, 0x55);
  EXPECT_TRUE(pager_->has_shared_pages());
  PokeProcess(stack_ + 16, 0x77);  // another process's write
  ASSERT_TRUE(pager_->WriteBack());
  EXPECT_EQ(InProcess(stack_ + 8), 0x55);
  EXPECT_EQ(InProcess(stack_ + 16), 0x77);
  pager_->ResyncShared();
  EXPECT_EQ(cpu_->HostPage(stack_)[16], 0x77);
}

TEST_F(ProcessPagerTest, WhatACallStoresIsImportedThoughThePageWasDropped) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  Idle();
  PokeProcess(stack_ + 130, InProcess(stack_ + 130) + 1);
  pager_->set_count(10);
  pager_->Resync({.written = {{stack_ + 128, 8}}});
  ASSERT_EQ(writer_.records.size(), 2u);
  EXPECT_EQ(writer_.records[1].count, 10u);
  EXPECT_EQ(writer_.Imports()[1].line_mask, 1u << 2);
  EXPECT_TRUE(LeftPages().empty());
}

TEST_F(ProcessPagerTest, WhatACallStoresIsImportedThoughThePageWasNeverUsed) {
  pager_->Resync({.written = {{stack_ + 100, 1}}});
  ASSERT_EQ(writer_.Imports().size(), 1u);
  EXPECT_TRUE(writer_.Imports()[0].first);
  EXPECT_EQ(writer_.Imports()[0].address, stack_);
}

TEST_F(ProcessPagerTest, AFailedCallImportsOnlyWhatIsKnown) {
  pager_->Resync({.perhaps_written = {{stack_, 8}}});
  EXPECT_TRUE(writer_.records.empty());
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  Idle();
  PokeProcess(stack_, InProcess(stack_) + 1);
  pager_->Resync({.perhaps_written = {{stack_, ~uint64_t{0}}}});
  EXPECT_EQ(writer_.records.size(), 2u);
}

// The kernel has stored up to there, and counts only whole pieces.
TEST_F(ProcessPagerTest, AnUnfilledBufferCountsWhereItEndsInMemoryThatIsNone) {
  const uint64_t end = pager_->space().Find(stack_)->end;
  pager_->Resync({.unfilled = {{stack_, end - stack_}}});
  EXPECT_TRUE(writer_.records.empty());
  pager_->Resync({.unfilled = {{stack_, 8}, {end - 8, 16}}});
  ASSERT_FALSE(writer_.Imports().empty());
  EXPECT_EQ(writer_.Imports().front().address, stack_);
  EXPECT_EQ(writer_.Imports().back().address, end - kPageBytes);
}

TEST_F(ProcessPagerTest, NonsenseRangesAreHarmless) {
  pager_->Resync({.written = {{~uint64_t{0} - 4, 100}, {0, ~uint64_t{0}}, {stack_ << 20, 8}}});
  EXPECT_TRUE(writer_.records.empty());
}

TEST_F(ProcessPagerTest, AfterAnUnknownCallAllIsCompared) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  Idle();
  PokeProcess(stack_ + 64, InProcess(stack_ + 64) + 1);
  pager_->Resync({.known = false});
  ASSERT_EQ(writer_.Imports().size(), 2u);
  EXPECT_EQ(writer_.Imports()[1].line_mask, 1u << 1);
  EXPECT_TRUE(LeftPages().empty());
}

TEST_F(ProcessPagerTest, PagesThatOthersWriteAreLeftOnceAndImportedThoughUnchanged) {
  pager_->set_written_elsewhere(true);
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  Idle();
  EXPECT_EQ(LeftPages(), std::vector<uint64_t>({stack_}));
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  ASSERT_EQ(writer_.Imports().size(), 2u);
  EXPECT_EQ(writer_.Imports()[1].line_mask, 0u);
}

TEST_F(ProcessPagerTest, BulkIsLeftOut) {
  pager_->set_bulk_bytes(1000);
  pager_->Resync({.written = {{stack_, 1000}}});
  EXPECT_EQ(writer_.Imports().size(), 1u);
  pager_->Resync({.written = {{stack_, 1001}}});
  EXPECT_EQ(writer_.Imports().size(), 1u);
  EXPECT_EQ(LeftPages(), std::vector<uint64_t>({stack_}));
}

TEST_F(ProcessPagerTest, PagesInUseAreNoBulk) {
  pager_->set_bulk_bytes(1);
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  PokeProcess(stack_, InProcess(stack_) + 1);
  pager_->Resync({.written = {{stack_, 4096}}});
  EXPECT_EQ(writer_.Imports().size(), 2u);
  EXPECT_TRUE(LeftPages().empty());
}

TEST_F(ProcessPagerTest, OtherMemoryInItsPlaceIsCompared) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  Idle();
  PokeProcess(stack_, InProcess(stack_) + 1);
  pager_->Resync({.remapped = {{stack_, 4096}}});
  EXPECT_EQ(writer_.Imports().size(), 2u);
}

TEST_F(ProcessPagerTest, UnmappedPagesAreLeft) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  std::vector<MapRegion> regions = pager_->space().map().regions();
  std::erase_if(regions,
                [this](const MapRegion& r) { return r.start <= stack_ && stack_ < r.end; });
  SetMap(MemoryMap(regions));
  EXPECT_EQ(LeftPages(), std::vector<uint64_t>({stack_}));
}

TEST_F(ProcessPagerTest, DiscardedPagesAreLeftWhenNobodyLooks) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  pager_->Resync({.discarded = {{stack_, 4096}}});
  EXPECT_TRUE(LeftPages().empty());  // still compared
  Idle();
  EXPECT_EQ(LeftPages(), std::vector<uint64_t>({stack_}));
}

TEST_F(ProcessPagerTest, WrittenPagesAreDiscardedNoMore) {
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  pager_->Resync({.discarded = {{stack_, 4096}}});
  Store(stack_, 1);
  ASSERT_TRUE(pager_->WriteBack());
  Idle();
  EXPECT_TRUE(LeftPages().empty());
}

TEST_F(ProcessPagerTest, WhatAnotherThreadHasChangedIsLeft) {
  witnesses_.Enable();
  ASSERT_TRUE(pager_->OnMissing(stack_, Access::kRead));
  Idle();
  std::array<uint8_t, kPageBytes> other;
  std::memcpy(other.data(), cpu_->HostPage(stack_), kPageBytes);
  witnesses_.SetNewest(stack_, &other, other.data());
  pager_->FollowOthers();
  EXPECT_TRUE(LeftPages().empty());  // it knows the same
  other[5] ^= 1;
  witnesses_.SetNewest(stack_, &other, other.data());
  pager_->FollowOthers();
  EXPECT_EQ(LeftPages(), std::vector<uint64_t>({stack_}));
}

}  // namespace
}  // namespace hindsight
