// Several threads' pagers on one process: memory shared while it is recorded.

#include <sys/syscall.h>

#include <memory>

#include "gtest/gtest.h"
#include "recorder/emulate/pager/process_pager.h"
#include "recorder/emulate/sync/memory_hashes.h"
#include "recorder/log/fake_trace_writer.h"
#include "recorder/ptrace/true_process.h"
#include "tracefmt/memory_hash.h"

namespace hindsight {
namespace {

// A thread's view, paged by hand as generated code would, on a process that others change.
class View {
 public:
  View(Tracee* tracee, const ModuleTable* modules, PageWitnesses* witnesses, int32_t thread,
       Sequence* sequence, std::shared_ptr<const AddressSpace> space)
      : log(&writer, thread, sequence), pager(tracee, modules, &log, witnesses) {
    cpu_ = *Cpu::Create(&pager);
    pager.set_cpu(cpu_.get());
    pager.SetSpace(std::move(space));
    pager.NoteSiblings();
  }

  ~View() { pager.Leave(); }  // while the view's pages are there

  uint8_t Load(uint64_t address) {
    const uint64_t page = address & ~(kPageBytes - 1);
    if (!holds(page)) {
      EXPECT_TRUE(pager.OnMissing(page, Access::kRead));
    }
    return cpu_->HostPage(page)[address % kPageBytes];
  }
  void Store(uint64_t address, uint8_t value) {
    const uint64_t page = address & ~(kPageBytes - 1);
    Load(address);
    if (cpu_->rights(page) == PageRights::kRead) {
      EXPECT_TRUE(pager.OnFirstWrite(page));
      cpu_->SetRights(page, PageRights::kReadWrite);
    }
    cpu_->HostPage(page)[address % kPageBytes] = value;
  }
  bool holds(uint64_t address) const {
    return cpu_->rights(address & ~(kPageBytes - 1)) != PageRights::kNone;
  }
  // Of the newest import: the line of `address` in `mask`.
  bool NewestKnows(uint64_t address) const {
    return (writer.Imports().back().known_mask >> (address % kPageBytes / kLineBytes) & 1) != 0;
  }

  FakeTraceWriter writer;
  ThreadLog log;
  ProcessPager pager;

 private:
  std::unique_ptr<Cpu> cpu_;
};

class SharedMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    tracee_ = LaunchTrue();
    ASSERT_NE(tracee_, nullptr);
    modules_ = std::make_unique<ModuleTable>(&writer_, "", 1 << 28);
    MemoryMap map = MemoryMap::OfProcess(tracee_->ProcPath("maps"));
    ASSERT_TRUE(modules_->Register(absl::MakeSpan(map.mutable_regions())).ok());
    RegisterFile registers;
    ASSERT_TRUE(tracee_->GetRegisters(true, &registers));
    stack_ = registers.gpr[kRsp] & ~(kPageBytes - 1);
    const auto space =
        std::make_shared<AddressSpace>(std::move(map), [](const MapRegion&) { return false; });
    witnesses_.Enable();
    one_ = std::make_unique<View>(tracee_.get(), modules_.get(), &witnesses_, 1, &sequence_, space);
    other_ =
        std::make_unique<View>(tracee_.get(), modules_.get(), &witnesses_, 2, &sequence_, space);
  }

  uint8_t InProcess(uint64_t address) {
    uint8_t byte = 0;
    EXPECT_TRUE(tracee_->memory().Read(address, absl::MakeSpan(&byte, 1)));
    return byte;
  }
  // What the kernel does for a read() that another thread waits in.
  void KernelWrites(uint64_t address, uint8_t byte) {
    EXPECT_TRUE(tracee_->memory().Write(address, absl::MakeConstSpan(&byte, 1)));
  }

  FakeTraceWriter writer_;  // of modules
  Sequence sequence_;
  PageWitnesses witnesses_;
  std::unique_ptr<Tracee> tracee_;
  std::unique_ptr<ModuleTable> modules_;
  uint64_t stack_ = 0;
  std::unique_ptr<View> one_, other_;
};

// The page is dirty in a thread's view when a read() of another one ends and writes to it.
TEST_F(SharedMemoryTest, WhatTheKernelWroteBesideAStoreStays) {
  one_->Store(stack_ + 8, 0x55);
  KernelWrites(stack_ + 9, 0x77);
  KernelWrites(stack_ + 2048, 0x78);
  ASSERT_TRUE(one_->pager.WriteBack());
  EXPECT_EQ(InProcess(stack_ + 8), 0x55);
  EXPECT_EQ(InProcess(stack_ + 9), 0x77);
  EXPECT_EQ(InProcess(stack_ + 2048), 0x78);
  one_->pager.Resync({});
  EXPECT_EQ(one_->Load(stack_ + 9), 0x77);
  EXPECT_EQ(one_->Load(stack_ + 8), 0x55);
}

// The page stays writable: what was written back is what later changes are told from.
TEST_F(SharedMemoryTest, TheSameAfterAnEarlierWriteBack) {
  for (uint8_t round = 1; round < 6; ++round) {
    one_->Store(stack_ + 8, round);
    ASSERT_TRUE(one_->pager.WriteBack());
    KernelWrites(stack_ + 8, 100 + round);
    one_->Store(stack_ + 16, round);
    ASSERT_TRUE(one_->pager.WriteBack());
    EXPECT_EQ(InProcess(stack_ + 8), 100 + round);
    EXPECT_EQ(InProcess(stack_ + 16), round);
    one_->pager.Resync({});
    EXPECT_EQ(one_->Load(stack_ + 8), 100 + round);
  }
}

// However long the page was not used when another thread stored to it: the older byte is not what
// the thread knows of it.
TEST_F(SharedMemoryTest, APageThatGoesOutOfUseIsNotKnownByItsOlderBytes) {
  uint8_t value = InProcess(stack_ + 8);
  for (int idle = 0; idle < 80; ++idle) {
    one_->Load(stack_ + 8);
    for (int i = 0; i < idle; ++i) one_->pager.Resync({});
    other_->Store(stack_ + 8, ++value);
    ASSERT_TRUE(other_->pager.WriteBack());
    one_->pager.FollowOthers();
    one_->pager.Resync({});
    uint8_t known = 0;
    if (one_->pager.ReadKnown(stack_ + 8, absl::MakeSpan(&known, 1))) {
      EXPECT_EQ(known, value) << "after " << idle << " looks without use";
    }
  }
}

// What a comparison brought in is no store of the thread's.
TEST_F(SharedMemoryTest, ImportsAreNotWrittenBack) {
  one_->Store(stack_ + 8, 1);
  ASSERT_TRUE(one_->pager.WriteBack());
  KernelWrites(stack_ + 40, 2);
  one_->pager.Resync({});
  ASSERT_EQ(one_->Load(stack_ + 40), 2);
  KernelWrites(stack_ + 40, 3);
  one_->Store(stack_ + 8, 4);
  ASSERT_TRUE(one_->pager.WriteBack());
  EXPECT_EQ(InProcess(stack_ + 40), 3);
  EXPECT_EQ(InProcess(stack_ + 8), 4);
}

TEST_F(SharedMemoryTest, RollbackTakesBackOnlyTheThreadsStores) {
  one_->Store(stack_ + 8, 1);
  const uint8_t before = InProcess(stack_ + 9);
  KernelWrites(stack_ + 9, before + 1);
  ASSERT_TRUE(one_->pager.Rollback());
  EXPECT_EQ(InProcess(stack_ + 9), static_cast<uint8_t>(before + 1));
  EXPECT_EQ(one_->Load(stack_ + 8), InProcess(stack_ + 8));
}

TEST_F(SharedMemoryTest, AnotherThreadsStoreIsKnownAndTheKernelsIsNot) {
  one_->Load(stack_);
  other_->Store(stack_ + 8, 1);
  ASSERT_TRUE(other_->pager.WriteBack());
  KernelWrites(stack_ + 640, InProcess(stack_ + 640) + 1);
  one_->pager.Resync({});
  ASSERT_EQ(one_->Load(stack_ + 8), 1);
  ASSERT_EQ(one_->writer.Imports().back().line_mask, uint64_t{1} << 10 | 1);
  EXPECT_TRUE(one_->NewestKnows(stack_ + 8));
  EXPECT_FALSE(one_->NewestKnows(stack_ + 640));
}

TEST_F(SharedMemoryTest, AReadIntoABufferIsNews) {
  one_->Store(stack_ + 8, 1);
  ASSERT_TRUE(one_->pager.WriteBack());
  KernelWrites(stack_ + 8, 2);
  one_->pager.Resync({});
  EXPECT_FALSE(one_->NewestKnows(stack_ + 8));
  // The other thread finds what this one has found: no news to the process.
  other_->Load(stack_ + 8);
  EXPECT_TRUE(other_->NewestKnows(stack_ + 8));
}

TEST_F(SharedMemoryTest, TheStoreOfAThreadThatEndedIsKnown) {
  one_->Load(stack_);
  other_->Store(stack_ + 8, 1);
  ASSERT_TRUE(other_->pager.WriteBack());
  other_.reset();
  one_->pager.Resync({});
  EXPECT_TRUE(one_->NewestKnows(stack_ + 8));
}

// Hashes of what is sent.
class WrittenOutTest : public SharedMemoryTest {
 protected:
  // write(1, stack_ + 8, 16) by the thread of one_.
  void Write(bool others) {
    ASSERT_TRUE(one_->pager.WriteBack());
    MemoryHashes hashes(tracee_.get(), &one_->pager, &one_->log);
    const uint64_t arguments[6] = {1, stack_ + 8, 16};
    hashes.LogSent(SYS_write, arguments, 0, others);
  }
  uint64_t HashOfProcess() {
    uint8_t bytes[16];
    EXPECT_TRUE(tracee_->memory().Read(stack_ + 8, absl::MakeSpan(bytes)));
    return HashMemory(bytes);
  }
};

TEST_F(WrittenOutTest, IsWhatTheKernelReads) {
  one_->Store(stack_ + 8, 1);
  Write(/*others=*/false);
  const auto* memory = std::get_if<MemoryHash>(&one_->writer.records.back().body);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->address, stack_ + 8);
  EXPECT_EQ(memory->size_bytes, 16u);
  EXPECT_EQ(memory->hash, HashOfProcess());
}

// A read() of another thread ended meanwhile: what is handed out then is imported before.
TEST_F(WrittenOutTest, IsBroughtIntoTheView) {
  one_->Store(stack_ + 8, 1);
  ASSERT_TRUE(one_->pager.WriteBack());
  KernelWrites(stack_ + 12, InProcess(stack_ + 12) + 1);
  const size_t imports = one_->writer.Imports().size();
  Write(/*others=*/true);
  EXPECT_EQ(one_->writer.Imports().size(), imports + 1);
  EXPECT_EQ(one_->Load(stack_ + 12), InProcess(stack_ + 12));
  const auto* memory = std::get_if<MemoryHash>(&one_->writer.records.back().body);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->hash, HashOfProcess());
}

// Of a page that is not in use any more replay knows what is in it.
TEST_F(WrittenOutTest, IsHashedWhereThePageIsNotInUse) {
  one_->Load(stack_);
  while (one_->holds(stack_)) one_->pager.Resync({});
  Write(/*others=*/true);
  const auto* memory = std::get_if<MemoryHash>(&one_->writer.records.back().body);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->hash, HashOfProcess());
}

// Of one that was left it has older bytes.
TEST_F(WrittenOutTest, IsNotHashedWhereThePageWasLeft) {
  one_->Load(stack_);
  while (one_->holds(stack_)) one_->pager.Resync({});
  one_->pager.set_written_elsewhere(true);
  one_->pager.Resync({});
  ASSERT_TRUE(std::holds_alternative<PageLeft>(one_->writer.records.back().body));
  const size_t records = one_->writer.records.size();
  Write(/*others=*/false);
  EXPECT_EQ(one_->writer.records.size(), records);
}

}  // namespace
}  // namespace hindsight
