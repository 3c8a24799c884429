#include "recorder/process_pager.h"

#include "gtest/gtest.h"
#include "recorder/fake_trace_writer.h"
#include "recorder/page_diff.h"

namespace hindsight {
namespace {

// A stopped process, and a Cpu whose view is paged by hand, as generated code would.
class ProcessPagerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto command = LookUpProgram({"/bin/true"});
    ASSERT_TRUE(command.ok());
    auto tracee = Tracee::Launch(*command);
    ASSERT_TRUE(tracee.ok()) << tracee.status();
    tracee_ = *std::move(tracee);
    modules_ = std::make_unique<ModuleTable>(&writer_, "", 1 << 28);
    log_ = std::make_unique<ThreadLog>(&writer_, tracee_->process(), &sequence_);
    pager_ = std::make_unique<ProcessPager>(tracee_.get(), modules_.get(), log_.get(), &witnesses_);
    auto cpu = Cpu::Create(pager_.get());
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    cpu_ = *std::move(cpu);
    pager_->set_cpu(cpu_.get());
    MemoryMap map = MemoryMap::OfProcess(tracee_->ProcPath("maps"));
    ASSERT_TRUE(modules_->Register(&map).ok());
    SetMap(map);
    RegisterFile registers;
    ASSERT_TRUE(tracee_->GetRegisters(true, &registers));
    code_ = registers.rip & ~(kPageBytes - 1);
    stack_ = registers.gpr[kRsp] & ~(kPageBytes - 1);
  }

  void SetMap(MemoryMap map) {
    pager_->SetSpace(
        std::make_shared<AddressSpace>(std::move(map), [](const MapRegion&) { return false; }));
  }

  // What generated code's store does.
  void Store(uint64_t address, uint8_t value) {
    const uint64_t page = address & ~(kPageBytes - 1);
    if (cpu_->rights(page) == PageRights::kNone) {
      ASSERT_TRUE(pager_->OnMissing(page, Access::kWrite));
    }
    if (cpu_->rights(page) == PageRights::kRead) {
      ASSERT_TRUE(pager_->OnFirstWrite(page));
      cpu_->SetRights(page, PageRights::kReadWrite);
    }
    cpu_->HostPage(page)[address % kPageBytes] = value;
  }
  uint8_t InProcess(uint64_t address) {
    uint8_t byte = 0;
    EXPECT_TRUE(tracee_->Read(address, absl::MakeSpan(&byte, 1)));
    return byte;
  }
  void PokeProcess(uint64_t address, uint8_t byte) {
    EXPECT_TRUE(tracee_->Write(address, absl::MakeConstSpan(&byte, 1)));
  }

  FakeTraceWriter writer_;
  Sequence sequence_;
  PageWitnesses witnesses_;
  std::unique_ptr<Tracee> tracee_;
  std::unique_ptr<ModuleTable> modules_;
  std::unique_ptr<ThreadLog> log_;
  std::unique_ptr<ProcessPager> pager_;
  std::unique_ptr<Cpu> cpu_;
  uint64_t code_ = 0, stack_ = 0;
};

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

}  // namespace
}  // namespace hindsight
